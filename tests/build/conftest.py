"""The stand-in, built once for all tests that need a wheel and not the way to it."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
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


@pytest.fixture(scope="session")
def build_standin(standin_tools, cuda_env):
    """Builds a wheel, or finds it in the cache: keywords `archs`, `sabotage`, `only`, `flags`."""

    def build(**settings):
        return standin_tools.build_wheel(cuda_env.python, cuda_env.environ(), CACHE, **settings)

    return build


@pytest.fixture(scope="session")
def standin_wheel(build_standin):
    """The sound wheel with all 13 modules, for sm_80, sm_90 and PTX of compute_90."""
    return build_standin()


@pytest.fixture(scope="session")
def broken_wheel(build_standin):
    """(the wheel, {extension: its fault}) of one build with ten faults."""
    return build_standin(sabotage=" ".join(f"{m}:{e}" for e, m in FAULTS.items())), FAULTS
