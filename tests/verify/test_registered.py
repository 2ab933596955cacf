"""Which kernels binaries register, and which torch does."""

from pathlib import Path

import pytest

from apexlab.verify import demangle, kernels, registered
from apexlab.verify.found import LIBRARY, MODULE, PYTHON, Found

ADAM, NORM, ADD = "_Z4adamPf", "_Z4normIfEvPT_", "_ZN2at3addEPf"
HIDDEN = "_ZN{}_GLOBAL__N__{}4backEPf"


def found(path: Path, layout: str = MODULE) -> Found:
    return Found(path.name.split(".")[0], path, layout, "311")


@pytest.fixture
def torch_lib(maker, folder) -> Path:
    """torch's libraries, of which one has device code and the names of its kernels."""
    lib = folder / "torch" / "lib"
    maker.named(lib, "libc10.so", "c10")
    maker.extension(lib, "cuda", file="libtorch_cuda.so", code=maker.fatbin("sm_90"),
                    more=f'const char *kernel = "{ADD}";\n')
    return lib


def test_names_are_read_as_people_read_them(maker, folder, torch_lib):
    code = maker.fatbin("sm_90", "sm_80", kernels=(ADAM, NORM, "plain_c"))
    path = maker.extension(folder, "amp_C", code=code)
    known = registered.read({"amp_C": found(path)}, torch_lib)
    assert known.names == {"amp_C": frozenset({"adam(float*)", "void norm<float>(float*)",
                                               "plain_c"})}
    assert known.torch == {"at::add(float*)"}
    assert known.paths == {"amp_C": str(path)}


def test_hidden_namespaces_of_two_modules_give_one_name(maker, folder, torch_lib):
    files = {}
    for name in ("one", "two"):
        hidden = HIDDEN.format(len("_GLOBAL__N__") + len(name), name)
        files[name] = found(maker.extension(
            folder, name, code=maker.fatbin("sm_90", kernels=(hidden,))))
    names = registered.read(files, torch_lib).names
    assert names["one"] == names["two"] == {"(anonymous namespace)::back(float*)"}


def test_only_a_shared_runtime_is_in_the_interposers_sight(maker, folder, torch_lib):
    runtime = maker.named(folder / "cuda", "libcudart.so.13", "cudaLaunchKernel")
    code = maker.fatbin("sm_90")
    files = {"shared": found(maker.extension(folder, "shared", code=code, needs=(runtime,))),
             "inside": found(maker.extension(folder, "inside", code=code))}
    assert registered.read(files, torch_lib).dynamic == {"shared"}


def test_a_path_is_the_one_that_the_loader_reports(maker, folder, torch_lib, tmp_path):
    real = maker.extension(tmp_path / "elsewhere", "_amp_C", code=maker.fatbin("sm_90"))
    link = folder / real.name
    link.symlink_to(real)
    known = registered.read({"amp_C": found(link, LIBRARY)}, torch_lib)
    assert known.paths == {"amp_C": str(real)}


@pytest.mark.parametrize("code", [b"", b"\x50\xed\x55\xba\x09\x00\x10\x00" + bytes(8)])
def test_what_cannot_be_read_has_a_place_and_no_names(maker, folder, torch_lib, code):
    path = folder / "amp_C.so"
    if code:  # a fatbin of an unknown version
        maker.extension(folder, "amp_C", file=path.name, code=code)
    else:
        path.write_bytes(b"\x7fELF")
    known = registered.read({"amp_C": found(path)}, torch_lib)
    assert (known.names, known.paths) == ({}, {"amp_C": str(path)})


def test_a_shim_without_a_library_registers_nothing(folder, torch_lib):
    shim = folder / "apex_C.py"
    shim.write_text("")
    known = registered.read({"apex_C": found(shim, PYTHON)}, torch_lib)
    assert (known.names, known.paths) == ({}, {})


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"version https://git-lfs"])
def test_a_torch_that_cannot_be_read_in_full_has_no_names_at_all(torch_lib, content):
    # Else a kernel of the part that is missing would not be known for torch's.
    (torch_lib / "libtorch_cuda_linalg.so").write_bytes(content)
    assert registered.torch_names(torch_lib) == frozenset()


def test_a_torch_without_device_code_has_no_kernels(maker, folder):
    maker.named(folder / "lib", "libtorch_cpu.so", ADD)
    assert registered.torch_names(folder / "lib") == frozenset()


@pytest.mark.cuda
def test_the_names_of_the_real_torch_hold_those_of_its_machine_code(cuda_env):
    lib = cuda_env.site / "torch" / "lib"
    names = registered.torch_names(lib)
    exact = kernels.names(lib / "libtorch_cuda_linalg.so")
    assert len(exact) > 1000
    assert {name for name in exact if name.startswith("_Z")} <= names
    readable = set(demangle.demangled(names).values())
    assert any(name.startswith("void at::native::vectorized_elementwise_kernel<")
               for name in readable)
    assert any("vectorized_layer_norm_kernel<" in name for name in readable)
    assert not any("cuApplyLayerNorm" in name for name in readable)
