"""The stand-in: Apex's build interface, binaries of the right kinds, and faults that are real."""

import importlib.util
import json
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from apexlab.verify.binary import read_binary
from apexlab.verify.errors import UnreadableError
from apexlab.verify.extensions import BY_NAME, CORE_FLAGS, EXTENSIONS, of_flags

STANDIN = Path(__file__).resolve().parents[1] / "standin"
ALL = sorted(extension.name for extension in EXTENSIONS)
VARIABLES = {f"APEX_{flag.upper()}": "1" for flag in CORE_FLAGS}
ARGUMENTS = [f"--{flag}" for flag in CORE_FLAGS]

# How many arguments Apex's own modules state for what a direct proof calls.
ARGUMENT_COUNTS = {
    "apex_C": {"flatten": 1, "unflatten": 2},
    "amp_C": {
        "multi_tensor_adam": 11, "multi_tensor_adam_capturable": 12,
        "multi_tensor_adam_capturable_master": 12, "multi_tensor_scale": 4,
        "multi_tensor_l2norm": 4,
    },
    "syncbn": {"welford_mean_var": 1},
    "fused_layer_norm_cuda": {
        "forward": 3, "forward_affine": 5, "forward_affine_mixed_dtypes": 5, "backward": 7,
        "backward_affine": 9, "rms_forward": 3, "rms_forward_affine": 4,
        "rms_forward_affine_mixed_dtypes": 4, "rms_backward": 6, "rms_backward_affine": 7,
    },
    "mlp_cuda": {"forward": 3, "backward": 5},
    "fused_dense_cuda": {"linear_bias_forward": 3, "linear_bias_backward": 3},
    "scaled_upper_triang_masked_softmax_cuda": {"forward": 2, "backward": 3},
    "scaled_masked_softmax_cuda": {"forward": 3, "backward": 3, "get_batch_per_block": 4},
    "scaled_softmax_cuda": {"forward": 2, "backward": 3},
    "generic_scaled_masked_softmax_cuda": {"forward": 3, "backward": 3},
    "fused_rotary_positional_embedding": {"forward": 3, "backward": 3},
    "fused_weight_gradient_mlp_cuda": {"wgrad_gemm_accum_fp32": 3, "wgrad_gemm_accum_fp16": 3},
    "fused_adam_cuda": {"adam": 14, "adam_mt": 12},
}  # fmt: skip

# Names by which a launched kernel is told from torch's.
KERNELS = {
    "amp_C": ("multi_tensor_apply_kernel", "AdamFunctor", "AdamCapturableFunctor",
              "AdamCapturableMasterFunctor", "ScaleFunctor", "L2NormFunctor"),
    "syncbn": ("welford_kernel",),
    "fused_layer_norm_cuda": ("cuApplyLayerNorm", "cuApplyRMSNorm", "cuComputeGradInput",
                              "cuComputePartGradGammaBeta", "cuComputeGradGammaBeta"),
    "mlp_cuda": ("biasAdd_fprop", "biasAddRelu_fprop", "Sigmoid_fprop"),
    "scaled_upper_triang_masked_softmax_cuda": (
        "scaled_upper_triang_masked_softmax_warp_forward",),
    "scaled_masked_softmax_cuda": ("scaled_masked_softmax_warp_forward",),
    "scaled_softmax_cuda": ("scaled_softmax_warp_forward",),
    "generic_scaled_masked_softmax_cuda": ("scaled_masked_softmax_warp_forward_new",),
    "fused_rotary_positional_embedding": ("fused_rope_forward",),
    "fused_adam_cuda": ("adam_cuda_kernel", "multi_tensor_apply_kernel", "AdamFunctor"),
}  # fmt: skip


def unpack(wheel, folder):
    """{extension: its file} of the wheel, unpacked."""
    zipfile.ZipFile(wheel).extractall(folder)
    return {path.name.split(".")[0]: path for path in folder.glob("*.so")}


def python(cuda_env, site, code, *arguments, timeout=120):
    return subprocess.run([cuda_env.python, "-c", code, *arguments], capture_output=True, text=True,
                          cwd="/", env=cuda_env.environ(PYTHONPATH=str(site)), timeout=timeout)


# --- the tree, without a compiler -----------------------------------------------------------------


def script(path):
    """A file of the tree as a module."""
    spec = importlib.util.spec_from_file_location(f"standin_{Path(path).stem}", STANDIN / path)
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its own module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_mode_strikes_something_and_is_in_the_readme():
    module = script("sabotage.py")
    readme = (STANDIN / "README.md").read_text()
    for name, mode in module.MODES.items():
        assert f"`{name}`" in readme
        assert mode.macro or mode.before or mode.after
        assert mode.extension in ("", *BY_NAME)
        assert {mode.before, mode.after} - {""} <= set(module.STEPS)


def test_every_macro_is_read_by_the_sources():
    sources = "".join(path.read_text() for path in STANDIN.glob("csrc/common/*"))
    for mode in script("sabotage.py").MODES.values():
        assert not mode.macro or re.search(rf"\b{mode.macro}\b", sources)


def test_the_right_class_with_torchs_kernel_is_in_the_python_side(tmp_path):
    steps = script("sabotage.py").STEPS
    (tmp_path / "apex" / "normalization").mkdir(parents=True)
    (tmp_path / "apex" / "optimizers").mkdir()
    steps["fall_back_for_all_shapes"]([], tmp_path)
    scope = {}
    exec((tmp_path / "apex" / "normalization" / "_shapes.py").read_text(), scope)
    assert not scope["fits"](1024)
    steps["step_by_torch"]([], tmp_path)
    text = (tmp_path / "apex" / "optimizers" / "fused_adam.py").read_text()
    assert "class FusedAdam(torch.optim.AdamW)" in text
    # The signature stays, so that no caller can tell.
    sound = (STANDIN / "apex" / "optimizers" / "fused_adam.py").read_text()
    signature = re.compile(r"def __init__\((.*?)\):", re.DOTALL)
    assert signature.search(text)[1] == signature.search(sound)[1]


def test_the_marker_names_the_standin():
    assert json.loads((STANDIN / "apexlab-source.json").read_text()) == {"source": "standin"}


def test_the_checkout_holds_no_build_artefact():
    kinds = (".so", ".o", ".ninja", ".whl")
    assert not [path for path in STANDIN.rglob("*") if path.suffix in kinds]


def test_every_extension_has_a_shim_that_asks_for_its_own_library():
    shims = {path.stem: path.read_text() for path in STANDIN.glob("apex/_extensions/[!_]*.py")}
    assert sorted(shims) == ALL
    # The one that is Python code in this layout asks for none.
    asking = {name for name, text in shims.items() if f'= functions("{name}"' in text}
    assert set(shims) - asking == {"apex_C"}


def test_a_shim_takes_the_nearest_library_and_there_one_without_a_tag(tmp_path):
    find = script("apex/_extensions/_library.py").find
    site = tmp_path / "site"
    shims = site / "apex" / "_extensions"
    shims.mkdir(parents=True)
    for decoy in ("amp_C.so", "_amp_C.py", "_syncbn.so", "../_amp_C.so"):
        (site / decoy).touch()
    with pytest.raises(ImportError, match="no library _amp_C"):
        find("amp_C", shims)
    # Each is to be preferred to all before it.
    for name in ("_amp_C.cpython-310-x86_64-linux-gnu.so", "_amp_C.so",
                 "apex/_amp_C.cpython-310-x86_64-linux-gnu.so", "apex/_amp_C.abi3.so",
                 "apex/_extensions/_amp_C.cpython-310-x86_64-linux-gnu.so",
                 "apex/_extensions/_amp_C.so"):
        (site / name).touch()
        assert find("amp_C", shims) == site / name


# --- the build interface --------------------------------------------------------------------------


@pytest.fixture
def setup_py(standin_tools, cuda_env, tmp_path):
    """Runs setup.py in a copy of the tree: arguments, and variables as keywords."""
    tree = standin_tools.copy_tree(tmp_path / "tree")
    environ = standin_tools.without_foreign(cuda_env.environ())

    def run(*arguments, **variables):
        return standin_tools.run_setup(cuda_env.python, tree, {**environ, **variables}, *arguments)

    run.tree = tree
    return run


def listed(done):
    return sorted(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.cuda
@pytest.mark.parametrize(("arguments", "variables", "expected"), [
    (ARGUMENTS, {}, ALL),
    ([], VARIABLES, ALL),
    (["--cpp_ext"], {"APEX_CPP_EXT": "1"}, ["apex_C"]),
    (["--cpp_ext", "--parallel", "2"], {"APEX_PARALLEL_BUILD": "2"}, ["apex_C"]),
    ([], {"APEX_CUDA_EXT": "1"}, sorted(e.name for e in of_flags(("cuda_ext",)))),
    ([], {"APEX_CUDA_EXT": "true", "APEX_CPP_EXT": "yes"}, []),
    ([], {}, []),
])  # fmt: skip
def test_flags_and_variables_choose_the_extensions(setup_py, arguments, variables, expected):
    done = setup_py("bdist_wheel", *arguments, STANDIN_LIST="1", **variables)
    assert listed(done) == expected


@pytest.mark.cuda
def test_without_flags_the_build_succeeds_and_holds_no_extension(build_standin, cuda_env, tmp_path):
    wheel = build_standin(flags={})
    assert unpack(wheel, tmp_path) == {}
    assert (tmp_path / "apex" / "optimizers" / "fused_adam.py").exists()
    done = python(cuda_env, tmp_path, "from apex.optimizers import FusedAdam; "
                  "from apex.normalization import FusedLayerNorm; import torch\n"
                  "try: FusedAdam([torch.zeros(1)])\n"
                  "except RuntimeError as error: print(error)\n"
                  "try: FusedLayerNorm(8)\n"
                  "except ModuleNotFoundError as error: print(error)")  # fmt: skip
    assert done.stdout.splitlines() == ["apex.optimizers.FusedAdam requires cuda extensions",
                                        "No module named 'fused_layer_norm_cuda'"]  # fmt: skip


@pytest.mark.cuda
def test_even_a_python_only_build_needs_nvcc(setup_py, tmp_path):
    with pytest.raises(subprocess.CalledProcessError) as raised:
        setup_py("bdist_wheel", CUDA_HOME=str(tmp_path))
    assert "nvcc" in raised.value.stderr


@pytest.mark.cuda
def test_another_toolkit_than_torch_has_is_refused_with_cuda_ext_alone(setup_py, tmp_path):
    (tmp_path / "bin").mkdir()
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 11.3, V11.3.109'\n")
    nvcc.chmod(0o755)
    assert listed(setup_py("--cpp_ext", CUDA_HOME=str(tmp_path), STANDIN_LIST="1")) == ["apex_C"]
    with pytest.raises(subprocess.CalledProcessError) as raised:
        setup_py("--cuda_ext", CUDA_HOME=str(tmp_path), STANDIN_LIST="1")
    assert "nvcc is of CUDA 11.3" in raised.value.stderr


@pytest.mark.cuda
def test_sabotage_comes_from_variable_or_file_and_a_typo_stops_the_build(setup_py):
    assert listed(setup_py(STANDIN_LIST="1", STANDIN_SABOTAGE="python-only", **VARIABLES)) == []
    (setup_py.tree / "sabotage").write_text("drop-extension:amp_C\n")
    assert set(ALL) - set(listed(setup_py(STANDIN_LIST="1", **VARIABLES))) == {"amp_C"}
    with pytest.raises(subprocess.CalledProcessError) as raised:
        setup_py(STANDIN_LIST="1", STANDIN_SABOTAGE="pyton-only", **VARIABLES)
    assert "unknown sabotage 'pyton-only'" in raised.value.stderr


@pytest.mark.cuda
def test_the_layout_comes_from_variable_or_file_and_a_typo_stops_the_build(setup_py):
    libraries = sorted(f"_{name}" for name in ALL if name != "apex_C")
    done = setup_py(STANDIN_LIST="1", STANDIN_LAYOUT="_extensions", **VARIABLES)
    assert listed(done) == libraries
    (setup_py.tree / "layout").write_text("_extensions\n")
    assert listed(setup_py(STANDIN_LIST="1", **VARIABLES)) == libraries
    with pytest.raises(subprocess.CalledProcessError) as raised:
        setup_py(STANDIN_LIST="1", STANDIN_LAYOUT="extensions", **VARIABLES)
    assert "unknown layout 'extensions'" in raised.value.stderr


@pytest.mark.cuda
def test_with_libraries_only_cuda_code_needs_nvcc(setup_py, tmp_path):
    without = {"CUDA_HOME": str(tmp_path), "STANDIN_LAYOUT": "_extensions", "STANDIN_LIST": "1"}
    assert listed(setup_py("--cpp_ext", **without)) == []
    with pytest.raises(subprocess.CalledProcessError) as raised:
        setup_py("--cuda_ext", **without)
    assert "nvcc" in raised.value.stderr


# --- the binaries ---------------------------------------------------------------------------------


@pytest.mark.cuda
def test_the_wheel_holds_the_thirteen_modules_with_the_device_code_of_their_kind(
    standin_wheel, tmp_path
):
    files = unpack(standin_wheel, tmp_path)
    assert sorted(files) == ALL
    for name, file in files.items():
        binary, kind = read_binary(file), BY_NAME[name].device_code
        assert binary.pyinit == (name,)
        assert binary.targets == (() if kind == "none" else ("sm_80", "sm_90")), name
        assert binary.ptx == (() if kind == "none" else ("compute_90",)), name
        assert (binary.kernels or 0) > 0 if kind == "kernels" else not binary.kernels, name


@pytest.mark.cuda
def test_the_kernels_have_the_names_that_tell_them_from_torchs(standin_wheel, tmp_path):
    files = unpack(standin_wheel, tmp_path)
    assert set(KERNELS) == {e.name for e in EXTENSIONS if e.device_code == "kernels"}
    for name, wanted in KERNELS.items():
        content = files[name].read_bytes()
        for kernel in wanted:
            assert f"{len(kernel)}{kernel}".encode() in content, (name, kernel)


@pytest.mark.cuda
def test_every_module_loads_and_states_apexs_signatures(standin_wheel, cuda_env, tmp_path):
    unpack(standin_wheel, tmp_path)
    code = ("import importlib, json, torch\n"
            f"modules = [importlib.import_module(name) for name in {ALL}]\n"
            "print(json.dumps({m.__name__: {n: f.__doc__ for n, f in vars(m).items()\n"
            "                               if n[0] != '_'} for m in modules}))")  # fmt: skip
    done = python(cuda_env, tmp_path, code)
    assert done.returncode == 0, done.stderr
    counts = {module: {name: len(re.findall(r"\barg\d+:", doc)) for name, doc in functions.items()}
              for module, functions in json.loads(done.stdout).items()}  # fmt: skip
    assert counts == ARGUMENT_COUNTS


# --- the layout with libraries --------------------------------------------------------------------


@pytest.fixture(scope="module")
def library_wheel(build_standin):
    return build_standin(layout="_extensions", only=("amp_C",), archs="9.0")


LIBRARY_CODE = """
import importlib.util, json, sys, torch
import apex
from apex._extensions import amp_C, apex_C
from apex.multi_tensor_apply import multi_tensor_applier
names = json.loads(sys.argv[1])
schemas = {name: getattr(amp_C, name).default._schema for name in names}
flat = apex_C.flatten([torch.ones(2, 3), torch.zeros(2)])
pieces = apex_C.unflatten(flat, [torch.ones(2, 3), torch.zeros(2)])
errors = {}
for name, act in {
    # Without a GPU the call gets as far as the tensors' device: arguments were understood.
    "on the CPU": lambda: amp_C.multi_tensor_scale(
        65536, torch.zeros(1, dtype=torch.int32), [[torch.ones(3)], [torch.ones(3)]], 2.0),
    "no function": lambda: amp_C.multi_tensor_nothing,
    "no library": lambda: apex.normalization.FusedLayerNorm(8),
}.items():
    try:
        act()
    except Exception as error:
        errors[name] = f"{type(error).__name__}: {error}"
print(json.dumps({
    "available": multi_tensor_applier.available,
    "adam": str(schemas["multi_tensor_adam"].name),
    "counts": {name: len(schema.arguments) for name, schema in schemas.items()},
    "modules": [name for name in ("amp_C", "_amp_C") if name in sys.modules],
    "top level": importlib.util.find_spec("amp_C") is not None,
    "loaded": [path.rpartition("/")[2] for path in torch.ops.loaded_libraries],
    "pieces": [list(piece.shape) for piece in pieces],
    "errors": errors,
}))
"""


@pytest.mark.cuda
def test_a_library_registers_functions_and_a_shim_gives_them_their_names(
    library_wheel, cuda_env, tmp_path
):
    (file,) = unpack(library_wheel, tmp_path).values()
    assert (file.name, read_binary(file).pyinit) == ("_amp_C.abi3.so", ())
    assert "-abi3-" in library_wheel.name
    wanted = ARGUMENT_COUNTS["amp_C"]
    done = python(cuda_env, tmp_path, LIBRARY_CODE, json.dumps(list(wanted)))
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    errors = said.pop("errors")
    assert said == {
        "available": True, "adam": "apex::amp_multi_tensor_adam", "counts": wanted, "modules": [],
        "top level": False, "loaded": ["_amp_C.abi3.so"], "pieces": [[2, 3], [2]],
    }  # fmt: skip
    assert "CUDA" in errors["on the CPU"]
    assert errors["no function"].startswith("AttributeError")
    assert errors["no library"].startswith("ImportError: no library _fused_layer_norm_cuda*.so")


@pytest.mark.cuda
def test_verify_loads_the_library_and_sees_python_code_in_place_of_apex_c(library_wheel, cuda_env):
    command = [cuda_env.apexlab, "verify", "--wheel", library_wheel, "--level", "load", "--json",
               "--require", "amp_C", "--require", "apex_C", "--require", "syncbn"]  # fmt: skip
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    report = json.loads(done.stdout)
    status = {one["name"]: one["status"] for one in report["extensions"] if one["expected"]}
    # A shim without its library is no extension.
    assert status == {"amp_C": "loaded", "apex_C": "present", "syncbn": "absent"}
    assert done.returncode == 1


# --- the faults -----------------------------------------------------------------------------------

IMPORT_ERRORS = {
    "undefined-symbol": "undefined symbol: _ZN3c104cuda23SetDeviceOfAnotherTorchEi",
    "missing-libcudart": "libcudart.so.99: cannot open shared object file",
    "other-abi": "undefined symbol: _ZN3c10",
    "drop-extension": "No module named 'fused_dense_cuda'",
    "wrong-suffix": "No module named 'fused_rotary_positional_embedding'",
}


@pytest.mark.cuda
def test_each_fault_is_seen_by_python_as_what_it_is(broken_wheel, cuda_env, tmp_path):
    wheel, faults = broken_wheel
    files = unpack(wheel, tmp_path)
    for name in ALL:
        try:
            done = python(cuda_env, tmp_path, f"import torch, {name}", timeout=30)
        except subprocess.TimeoutExpired:
            assert faults.get(name) == "hang-on-import"
            continue
        fault = faults.get(name, "")
        if error := IMPORT_ERRORS.get(fault):
            assert done.returncode == 1
            assert error in done.stderr
        elif fault in ("crash-on-import", "truncated"):
            assert -done.returncode in (signal.SIGSEGV, signal.SIGBUS), (name, done.stderr)
        else:
            # Only a look into the file tells these from sound ones.
            assert fault in ("", "no-device-code", "wrong-arch")
            assert done.returncode == 0, done.stderr
    assert read_binary(files["fused_layer_norm_cuda"]).targets == ()
    assert read_binary(files["mlp_cuda"]).targets == ("sm_75",)
    with pytest.raises(UnreadableError):
        read_binary(files["scaled_softmax_cuda"])


@pytest.mark.cuda
def test_a_fallback_for_some_shapes_is_in_the_python_side_of_the_wheel(build_standin, tmp_path):
    wheel = build_standin(sabotage="fallback-for-shape", only=("fused_layer_norm_cuda",))
    unpack(wheel, tmp_path)
    scope = {}
    exec((tmp_path / "apex" / "normalization" / "_shapes.py").read_text(), scope)
    assert scope["fits"](1024)
    assert not scope["fits"](768)
