"""The static level: a sound installation passes, and each fault has its own name."""

import subprocess
import sys
from dataclasses import replace

import pytest

from apexlab.verify.arch import Arch
from apexlab.verify.check import Options, check
from apexlab.verify.found import find_files
from apexlab.verify.site import find_hidden, folder_site, here
from apexlab.verify.static import verify_site

NAMES = ("apex_C", "amp_C", "fused_dense_cuda")


@pytest.fixture
def site(maker, folder):
    return maker.healthy(folder, *NAMES)


def findings(report, *severities):
    return {found.code for found in report.findings
            if found.severity in (severities or ("error",))}


def judged(site, *require, level="static", **more):
    if level == "load":
        return check(folder_site(site), Options(level="load", require=require or NAMES))
    return verify_site(site, require=require or NAMES, **more)


def test_a_sound_installation_is_ok(site):
    report = judged(site)
    assert (report.verdict, report.exit_code, findings(report)) == ("ok", 0, set())
    assert [one.status for one in report.extensions if one.expected] == ["present"] * 3


def test_without_a_record_the_core_profile_is_expected(maker, site):
    report = verify_site(site)
    assert report.exit_code == 1
    absent = {one.name for one in report.extensions if one.status == "absent"}
    assert len(absent) == 9 and "fused_adam_cuda" not in absent
    optional = next(one for one in report.extensions if one.name == "fused_adam_cuda")
    assert optional.status == "not-requested" and optional.findings[0].severity == "info"


def test_fused_adam_cuda_is_expected_when_the_record_asked_for_it(site, record_of):
    record = record_of(site, *NAMES, requested=(*NAMES, "fused_adam_cuda"))
    report = verify_site(site, record)
    assert findings(report) == {"not-installed"}
    assert report.errors[0].extensions == ("fused_adam_cuda",)


def test_a_python_only_build_is_one_failure(maker, folder):
    maker.healthy(folder)
    report = verify_site(folder)
    assert [found.code for found in report.errors] == ["python-only"]
    assert "0 of 12" in report.errors[0].message


def test_no_apex_at_all_is_one_failure(maker, folder):
    maker.torch(folder)
    assert findings(verify_site(folder)) == {"apex-missing"}


def test_the_web_package_of_the_same_name_is_told_apart(maker, folder):
    maker.healthy(folder)
    (folder / "apex-0.9.10.dev0.dist-info").mkdir()
    report = verify_site(folder)
    assert findings(report) == {"wrong-package"}
    assert "0.9.10.dev0" in report.errors[0].message


def test_the_web_package_beside_extensions_is_told_apart_too(site):
    (site / "apex-0.9.10.dev0.dist-info").mkdir()
    assert findings(judged(site)) == {"wrong-package"}


# Which apex is this?

@pytest.fixture
def elsewhere(tmp_path):
    """A folder with another package apex."""
    package = tmp_path / "elsewhere" / "apex"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    return package.parent


def test_a_second_installation_further_down_the_path_is_named(site, elsewhere):
    assert find_hidden(site / "apex", [site, elsewhere, site]) == (elsewhere / "apex",)
    hidden = replace(folder_site(site), hidden=(elsewhere / "apex",))
    report = check(hidden, Options(require=NAMES))
    assert (report.exit_code, findings(report, "warning")) == (0, {"installed-elsewhere"})
    assert str(elsewhere / "apex") in report.findings[0].message


def test_a_source_tree_is_no_installation(site):
    (site / "setup.py").touch()
    report = judged(site)
    assert (report.exit_code, findings(report, "warning")) == (0, {"source-tree"})


@pytest.fixture
def packages(tmp_path, maker):
    """A folder that Python takes for an environment's site-packages, with torch alone."""
    folder = tmp_path / "site-packages"
    maker.torch(folder)
    return folder


def test_an_editable_install_is_followed_to_its_tree(packages, site):
    (site / "setup.py").touch()
    (packages / "__editable___apex_0_1_finder.py").write_text(
        f"MAPPING: dict[str, str] = {{'apex': '{site / 'apex'}', 'amp_C': '{site / 'amp_C'}'}}\n"
        "raise SystemExit('this is read and never run')\n")
    report = judged(packages)
    assert (report.exit_code, findings(report, "warning")) == (0, {"source-tree"})
    assert str(site) in report.findings[0].message


def test_an_editable_install_that_lost_its_flags_is_python_only(packages, elsewhere):
    (elsewhere / "setup.py").touch()
    (packages / "apex.pth").write_text(f"# a comment\nimport os\n{elsewhere}\nnowhere\n")
    report = judged(packages)
    assert findings(report) == {"python-only"} and findings(report, "warning") == {"source-tree"}


def test_what_pip_installed_and_is_gone_was_lost_later(site):
    info = site / "apex-0.1.dist-info"
    info.mkdir()
    file = next(site.glob("amp_C*.so"))
    (info / "RECORD").write_text(f"apex/__init__.py,,\n{file.name},sha256=x,5\n")
    file.unlink()
    fixes = {one.name: one.findings[0].fix for one in judged(site, *NAMES, "syncbn").extensions
             if one.status == "absent"}
    assert fixes["amp_C"].startswith("It was built, and lost later")
    assert fixes["syncbn"].startswith("The build dropped it")


def test_a_flag_that_did_not_reach_the_build_is_one_failure(maker, folder):
    report = verify_site(maker.healthy(folder, "apex_C"))
    assert [one.code for one in report.errors] == ["flag-lost"]
    assert "--cuda_ext" in report.errors[0].message and len(report.errors[0].extensions) == 11
    assert "APEX_CUDA_EXT=1" in report.errors[0].fix


def test_what_was_built_with_a_flag_and_is_gone_is_no_lost_flag(maker, folder, record_of):
    record = record_of(maker.healthy(folder, "apex_C", "amp_C", "syncbn"),
                       "apex_C", "amp_C", "syncbn")
    for path in (*folder.glob("amp_C*.so"), *folder.glob("syncbn*.so")):
        path.unlink()
    report = verify_site(folder, record)
    assert [one.code for one in report.errors] == ["not-installed"]
    assert "lost later" in report.errors[0].fix


def test_no_torch_is_an_error_of_the_installation(maker, folder):
    maker.healthy(folder, *NAMES)
    (folder / "torch/version.py").unlink()
    assert findings(judged(folder)) == {"torch-missing"}


# One broken extension each.

def only(site, maker, **more):
    maker.extension(site, "amp_C", **{"code": maker.fatbin("sm_90"), **more})
    return judged(site)


def test_a_symbol_of_another_torch(site, maker):
    report = only(site, maker, calls=("_ZN3c104cuda9SetDeviceEa", "forgotten"))
    assert findings(report) == {"torch-abi-mismatch"}
    assert "c10::cuda::SetDevice(signed char)" in report.errors[0].message
    assert "and 1 more" in report.errors[0].message
    assert "make image TORCH=2.6 CUDA=12.4" in report.errors[0].fix


def test_the_other_cxx_abi_is_named_as_such(site, maker):
    report = only(site, maker, calls=("_ZN3c104cuda9SetDeviceEa", maker.old_abi))
    assert findings(report) == {"cxx-abi-mismatch"}
    message = report.errors[0].message
    assert "built for the old C++ ABI, and torch 2.6.0+cu124 has the new one" in message
    assert "torchCheckFail" in message and "and 1 more" in message


def test_a_symbol_of_nobody(site, maker):
    assert findings(only(site, maker, calls=("forgotten",))) == {"undefined-symbol"}


def test_a_missing_cuda_runtime(site, maker, tmp_path):
    gone = maker.named(tmp_path, "libcudart.so.77", "f")
    report = only(site, maker, needs=(gone,))
    assert findings(report) == {"cudart-missing"}
    assert "libcudart.so.77" in report.errors[0].message


def test_two_cuda_runtimes(site, maker, monkeypatch, tmp_path):
    other = maker.named(tmp_path, "libcudart.so.13", "f")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert findings(only(site, maker, needs=(other,))) == {"cuda-major-mismatch"}


@pytest.mark.parametrize(("library", "code"), [
    ("libcuda.so.1", "driver-lib-missing"), ("libcudnn.so.9", "library-missing")])
def test_other_missing_libraries(site, maker, tmp_path, library, code):
    assert findings(only(site, maker, needs=(maker.named(tmp_path, library, "f"),))) == {code}


def test_a_cpu_torch_under_a_cuda_build(site, maker):
    c10_cuda = site / "torch/lib/libc10_cuda.so"
    maker.extension(site, "amp_C", code=maker.fatbin("sm_90"), needs=(c10_cuda,))
    c10_cuda.unlink()
    (site / "torch/version.py").write_text("__version__ = '2.6.0+cpu'\ncuda = None\n")
    report = judged(site)
    assert findings(report) == {"torch-cpu-only"}


def test_no_device_code(site, maker):
    assert findings(only(site, maker, code=None)) == {"no-device-code"}


def test_no_kernels_where_kernels_belong(site, maker):
    assert findings(only(site, maker, code=maker.fatbin("sm_90", kernels=()))) == {"no-kernels"}


def test_device_code_that_cannot_be_read_is_not_called_absent(site, maker):
    report = only(site, maker, code=b"\x01" * 64)
    assert findings(report) == {"unreadable-fatbin"}


def test_an_old_architecture_does_not_run_on_a_new_gpu(site, maker):
    maker.extension(site, "amp_C", code=maker.fatbin("sm_75"))
    report = judged(site, arch=Arch(9, 0))
    assert findings(report) == {"no-kernel-image"}
    assert "sm_75" in report.errors[0].message and "9.0" in report.errors[0].message
    assert "needs CUDA" not in report.errors[0].fix


def test_a_new_gpu_needs_a_new_toolkit(site):
    report = judged(site, arch=Arch(12, 0))
    assert findings(report) == {"no-kernel-image"}
    assert "12.0 in the list of architectures (ARCHS= or --archs), which needs CUDA 12.8 or later" \
        in report.errors[0].fix


def test_ptx_alone_is_a_warning(site, maker):
    maker.extension(site, "amp_C", code=maker.fatbin("sm_75", "compute_75"))
    report = judged(site, arch=Arch(9, 0))
    assert report.exit_code == 0 and findings(report, "warning") == {"jit-only"}


def test_a_file_for_another_python(site, maker):
    (site / next(site.glob("amp_C*.so")).name).rename(
        site / "amp_C.cpython-39-x86_64-linux-gnu.so")
    report = judged(site)
    assert findings(report) == {"wrong-python-abi"}
    assert "Python 3.9" in report.errors[0].message


@pytest.mark.parametrize("beside", [
    "amp_C.cpython-39-x86_64-linux-gnu.so", "amp_C.abi3.so", "amp_C.so"])
def test_a_sound_file_is_judged_and_not_the_one_beside_it(site, beside):
    (site / beside).write_bytes(b"nothing that works")
    assert findings(judged(site)) == set()


def test_a_file_for_another_python_further_up_the_path_is_passed_over(maker, site, tmp_path):
    other = tmp_path / "first"
    other.mkdir()
    (other / "amp_C.cpython-39-x86_64-linux-gnu.so").write_bytes(b"")
    found = find_files([other, site], here().abi, None)["amp_C"]
    assert found.path.parent == site


def test_a_renamed_file(site, maker):
    report = only(site, maker, init="other")
    assert findings(report) == {"not-a-module"}
    assert "only PyInit_other" in report.errors[0].message


@pytest.mark.parametrize("content", [b"not ELF", b""])
def test_a_file_that_is_something_else(site, content):
    next(site.glob("amp_C*.so")).write_bytes(content)
    assert findings(judged(site)) == {"wrong-file"}


def test_a_truncated_file(site):
    path = next(site.glob("amp_C*.so"))
    path.write_bytes(path.read_bytes()[:-100])
    report = judged(site)
    assert findings(report) == {"wrong-file"} and "truncated" in report.errors[0].message


def test_a_file_for_another_machine(site):
    path = next(site.glob("amp_C*.so"))
    data = bytearray(path.read_bytes())
    data[18] = 183  # aarch64
    path.write_bytes(data)
    report = judged(site)
    assert findings(report) == {"wrong-machine"} and "aarch64" in report.errors[0].message


def test_one_cause_in_many_extensions_is_said_once(site, maker):
    for name in ("amp_C", "syncbn"):
        maker.extension(site, name, code=maker.fatbin("sm_90"), calls=("_ZN2at4goneEv",))
    report = judged(site, *NAMES, "syncbn")
    assert [found.code for found in report.errors] == ["torch-abi-mismatch"]
    assert report.errors[0].extensions == ("amp_C", "syncbn")
    assert "syncbn" in report.errors[0].message


# Against the record.

def test_the_record_in_the_dist_info_is_found(site, record_of):
    info = site / "apex-0.1.dist-info"
    info.mkdir()
    record = record_of(site, *NAMES)
    (info / "apexlab-record.json").write_text(record.to_json())
    report = verify_site(site)
    assert report.record == record and report.exit_code == 0
    assert report.record_path == str(info / "apexlab-record.json")


def test_a_file_that_was_exchanged(site, maker, record_of):
    record = record_of(site, *NAMES)
    maker.extension(site, "amp_C", code=maker.fatbin("sm_90", kernels=("_Z5otherv",)))
    report = verify_site(site, record)
    assert findings(report) == {"tampered"} and report.errors[0].extensions == ("amp_C",)


def test_a_file_that_was_built_and_is_gone_was_lost_later(site, record_of):
    record = record_of(site, *NAMES, requested=(*NAMES, "syncbn"))
    next(site.glob("amp_C*.so")).unlink()
    fixes = {one.name: one.findings[0].fix for one in verify_site(site, record).extensions
             if one.status == "absent"}
    assert fixes["amp_C"].startswith("It was built, and lost later: install the wheel again")
    assert fixes["syncbn"].startswith("The build dropped it: make image TORCH=2.6 CUDA=12.4")


def test_a_torch_that_was_replaced_later(site, maker, record_of):
    maker.extension(site, "amp_C", code=maker.fatbin("sm_90"), calls=("_ZN3c104cuda9SetDeviceEa",))
    record = record_of(site, *NAMES, torch="2.4.1+cu124")
    report = verify_site(site, record)
    assert findings(report) == {"torch-replaced"}
    message, fix = report.errors[0].message, report.errors[0].fix
    assert "2.4.1+cu124" in message and "2.6.0+cu124" in message
    assert "amp_C needs c10::cuda::SetDevice(signed char)" in message
    assert ("pip install torch==2.4.1+cu124 --index-url https://download.pytorch.org/whl/cu124"
            in fix)
    assert "make image TORCH=2.6 CUDA=12.4" in fix


def test_a_record_of_another_torch_is_a_failure_by_itself(site, record_of):
    record = record_of(site, *NAMES, torch="2.6.0+cu126")
    assert findings(verify_site(site, record)) == {"torch-replaced"}


def test_code_for_less_than_the_record_has(site, record_of):
    record = record_of(site, *NAMES)
    built = tuple(replace(one, targets=("sm_80", "sm_90"), sha256="") if one.name == "amp_C"
                  else one for one in record.built)
    report = verify_site(site, replace(record, built=built))
    assert findings(report) == {"fewer-architectures"}


def test_targets_of_its_own_are_no_fault_when_the_record_has_them(maker, folder, record_of):
    maker.healthy(folder, "amp_C", targets=("sm_80",))
    record = record_of(folder, "amp_C", archs=("7.5", "9.0"))
    assert findings(verify_site(folder, record)) == set()


# The other layout: libraries without PyInit, loaded by shims.

def test_the_layout_with_shims(maker, folder):
    maker.torch(folder)
    shims = folder / "apex/_extensions"
    shims.mkdir(parents=True)
    (folder / "apex/__init__.py").touch()
    for name in ("amp_C", "apex_C", "syncbn"):
        (shims / f"{name}.py").write_text("")
    maker.extension(folder, "amp_C", file="_amp_C.abi3.so", init="none",
                    code=maker.fatbin("sm_90"))
    report = verify_site(folder, require=("amp_C", "apex_C", "syncbn"))
    status = {one.name: one.status for one in report.extensions}
    assert (status["amp_C"], status["apex_C"], status["syncbn"]) == ("present", "present", "absent")
    assert findings(report) == {"not-installed"}
    assert "python-code" in findings(report, "info")


@pytest.fixture
def libraries(maker, folder):
    maker.torch(folder)
    maker.library_of(folder, "amp_C")
    return folder


def test_a_library_without_its_shim_serves_nobody(libraries):
    (libraries / "apex/_extensions/amp_C.py").unlink()
    report = judged(libraries, "amp_C")
    assert findings(report) == {"shim-missing"}
    assert "apex/_extensions/amp_C.py" in report.errors[0].message


def test_without_a_shim_the_module_is_judged_and_with_one_the_library(maker, libraries):
    maker.extension(libraries, "amp_C", code=maker.fatbin("sm_80"))
    targets = {name: found.path.name for name, found in folder_site(libraries).files.items()}
    assert targets["amp_C"] == "_amp_C.abi3.so"
    (libraries / "apex/_extensions/amp_C.py").unlink()
    assert folder_site(libraries).files["amp_C"].path.name.startswith("amp_C.")


def test_no_python_is_asked_about_the_name_of_a_library(libraries):
    (libraries / "_amp_C.abi3.so").rename(libraries / "_amp_C.cpython-39-x86_64-linux-gnu.so")
    assert findings(judged(libraries, "amp_C")) == set()


def test_an_underscore_does_not_make_a_module_a_library(maker, libraries):
    maker.extension(libraries, "_apex_nccl_allocator", code=None,
                    file="_apex_nccl_allocator.cpython-39-x86_64-linux-gnu.so")
    report = judged(libraries, "amp_C", "_apex_nccl_allocator")
    assert findings(report) == {"wrong-python-abi"}


@pytest.mark.parametrize("files", [
    ("apex/_extensions/_amp_C.cpython-311-x86_64-linux-gnu.so", "apex/_amp_C.so", "_amp_C.so"),
    ("apex/_amp_C.so", "_amp_C.so"),
    ("_amp_C.so", "_amp_C.cpython-311-x86_64-linux-gnu.so"),
    ("_amp_C.abi3.so", "_amp_C.cpython-311-x86_64-linux-gnu.so", "amp_C.so"),
])
def test_the_library_that_the_shim_takes_is_the_one_that_is_judged(libraries, files):
    good = (libraries / "_amp_C.abi3.so").read_bytes()
    (libraries / "_amp_C.abi3.so").unlink()
    for number, name in enumerate(files):
        (libraries / name).write_bytes(b"" if number else good)
    report = judged(libraries, "amp_C", level="load")
    assert findings(report) == set()
    assert next(one for one in report.extensions if one.name == "amp_C").path == str(
        libraries / files[0])


def test_nothing_is_imported(site):
    (site / "torch/__init__.py").write_text("raise SystemExit('torch was imported')")
    script = ("import sys; from pathlib import Path; "
              "from apexlab.verify.static import verify_site; "
              "report = verify_site(Path(sys.argv[1]), require=('amp_C',)); "
              "heavy = {'torch', 'numpy', 'rich', 'subprocess'} & set(sys.modules); "
              "print(report.exit_code, sorted(heavy - {'subprocess'}))")
    done = subprocess.run([sys.executable, "-c", script, site], capture_output=True, text=True)
    assert done.stdout.strip() == "0 []", done.stderr
