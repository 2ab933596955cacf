"""The stand-in, built once for all tests that need a wheel and not the way to it."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STANDIN = ROOT / "tests" / "standin"
CACHE = ROOT / ".cache"

# One wheel with as many faults as can live side by side; apex_C, the causal softmax and the weight
# gradient are sound in it.
FAULTS = {
    "amp_C": "undefined-symbol",
    "syncbn": "missing-libcudart",
    "fused_layer_norm_cuda": "no-device-code",
    "mlp_cuda": "wrong-arch",
    "fused_dense_cuda": "drop-extension",
    "scaled_softmax_cuda": "truncated",
    "scaled_masked_softmax_cuda": "other-abi",
    "generic_scaled_masked_softmax_cuda": "hang-on-import",
    "fused_rotary_positional_embedding": "wrong-suffix",
    "fused_adam_cuda": "crash-on-import",
}


def load(name):
    """A script of the stand-in's folder as a module."""
    spec = importlib.util.spec_from_file_location(f"standin_{name}", STANDIN / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def standin_tools():
    """The functions of tests/standin/build_wheel.py."""
    return load("build_wheel")


@pytest.fixture(scope="session")
def standin_environ(cuda_env):
    """The variables of a build, without any that a person's own shell may have set for one."""
    foreign = ("APEX_", "STANDIN_", "TORCH_CUDA_ARCH_LIST", "NVCC_", "MAX_JOBS")
    return {key: value for key, value in cuda_env.environ().items() if not key.startswith(foreign)}


@pytest.fixture(scope="session")
def build_standin(standin_tools, standin_environ, cuda_env):
    """Builds a wheel, or finds it in the cache: keywords `archs`, `sabotage`, `only`, `flags`."""

    def build(**settings):
        return standin_tools.build_wheel(cuda_env.python, standin_environ, CACHE, **settings)

    return build


@pytest.fixture(scope="session")
def standin_wheel(build_standin):
    """The sound wheel with all 13 modules, for sm_80, sm_90 and PTX of compute_90."""
    return build_standin()


@pytest.fixture(scope="session")
def broken_wheel(build_standin):
    """(the wheel, {extension: its fault}) of one build with ten faults."""
    return build_standin(sabotage=" ".join(f"{m}:{e}" for e, m in FAULTS.items())), FAULTS
