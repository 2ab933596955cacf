"""From what the instruments saw to whose kernels they were, on plain data."""

import pytest

from apexlab.verify.attribute import Registered, kernels, working
from apexlab.verify.report import Kernel

ADD = "void at::native::vectorized_elementwise_kernel<4, AddFunctor>(int)"
TORCH_NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>(int)"
TORCH_ADAM = "void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>(int)"
ADAM = "void multi_tensor_apply_kernel<AdamFunctor<float>>(long)"
NORM = "void cuApplyLayerNorm<float>(float*)"
CUB = "void cub::EmptyKernel<void>()"
HIDDEN = "void (anonymous namespace)::backward<float>(float*)"

LIBTORCH, AMP, CONTRIB, NORMS, STATIC = (
    "/t/libtorch_cuda.so", "/s/amp_C.so", "/s/fused_adam_cuda.so", "/s/norm.so", "/s/static.so")
REGISTERED = Registered(
    names={"amp_C": frozenset({ADAM, CUB}), "fused_adam_cuda": frozenset({ADAM}),
           "norm": frozenset({NORM, HIDDEN}), "static": frozenset({"k(int)", HIDDEN}),
           "dense": frozenset()},
    paths={"amp_C": AMP, "fused_adam_cuda": CONTRIB, "norm": NORMS, "static": STATIC,
           "dense": "/s/dense.so", "unreadable": "/s/unreadable.so"},
    dynamic=frozenset({"amp_C", "fused_adam_cuda", "norm", "dense"}),
    torch=frozenset({ADD, TORCH_NORM, TORCH_ADAM, CUB}))
BOTH = frozenset({"profiler", "interposer"})
PROFILER, INTERPOSER = frozenset({"profiler"}), frozenset({"interposer"})


def profiled(*names):
    return [{"name": name, "count": 1, "file": None, "us": 2.0} for name in names]


def launched(*pairs):
    return [{"name": name, "count": 1, "file": file, "us": None} for name, file in pairs]


def phase(profiler=None, interposer=None):
    return {"phase": "", "profiler": profiler, "interposer": interposer, "errors": []}


def controls(**changed):
    """Both instruments in order, but for what is `changed`: "add_profiler=[]"."""
    found = {
        "add": {"profiler": profiled(ADD), "interposer": launched((ADD, LIBTORCH))},
        "layer_norm": {"profiler": profiled(TORCH_NORM),
                       "interposer": launched((TORCH_NORM, LIBTORCH))}}
    for place, value in changed.items():
        control, _, instrument = place.rpartition("_")
        found[control][instrument] = value
    return found


def test_both_instruments_that_see_torch_are_at_work():
    assert working(controls(), REGISTERED) == BOTH


@pytest.mark.parametrize("seen", [None, [], profiled("Memset"), profiled(NORM)])
@pytest.mark.parametrize("control", ["add", "layer_norm"])
def test_an_instrument_that_does_not_see_torch_is_blind(control, seen):
    assert working(controls(**{f"{control}_profiler": seen}), REGISTERED) == INTERPOSER
    assert working(controls(**{f"{control}_interposer": seen}), REGISTERED) == PROFILER


@pytest.mark.parametrize("seen", [
    profiled(TORCH_NORM, NORM), launched((TORCH_NORM, NORMS)),
    launched((TORCH_NORM, LIBTORCH), (TORCH_NORM, NORMS))])
def test_an_instrument_that_takes_torchs_kernels_for_an_extensions_is_not_trusted(seen):
    assert working(controls(layer_norm_profiler=seen), REGISTERED) == INTERPOSER
    assert working(controls(layer_norm_interposer=seen), REGISTERED) == PROFILER


def test_nothing_is_trusted_where_torchs_names_are_not_known():
    unknown = Registered(REGISTERED.names, REGISTERED.paths, REGISTERED.dynamic, frozenset())
    assert working(controls(), unknown) == frozenset()


def test_the_file_decides_between_two_extensions_with_a_kernel_of_the_same_name():
    seen = phase(profiled(ADAM), launched((ADAM, AMP)))
    assert kernels("amp_C", seen, REGISTERED, BOTH) == (
        Kernel(ADAM, 1, True, ("fused_adam_cuda",)),)
    assert kernels("fused_adam_cuda", seen, REGISTERED, BOTH) == (Kernel(ADAM, 1, False),)


def test_a_name_that_two_extensions_register_is_said_to_be_in_both():
    seen = phase(profiled(ADAM, ADAM))
    assert kernels("amp_C", seen, REGISTERED, PROFILER) == (
        Kernel(ADAM, 2, True, ("fused_adam_cuda",)),)
    assert kernels("fused_adam_cuda", seen, REGISTERED, PROFILER) == (
        Kernel(ADAM, 2, True, ("amp_C",)),)


@pytest.mark.parametrize("at_work", [BOTH, PROFILER, INTERPOSER])
def test_the_right_call_with_torchs_kernel_is_no_proof(at_work):
    seen = phase(profiled(TORCH_ADAM), launched((TORCH_ADAM, LIBTORCH)))
    assert kernels("amp_C", seen, REGISTERED, at_work) == (Kernel(TORCH_ADAM, 1, False),)


def test_an_extensions_kernel_in_another_file_is_not_the_extensions():
    # Someone else's build of the same kernel, which torch does not have.
    seen = phase(profiled(NORM), launched((NORM, "/x/other.so")))
    assert kernels("norm", seen, REGISTERED, BOTH) == (Kernel(NORM, 1, False),)


def test_a_launch_without_a_certain_file_is_judged_by_its_name():
    seen = phase(profiled(NORM, ADD), launched((NORM, None), (ADD, None)))
    assert kernels("norm", seen, REGISTERED, BOTH) == (Kernel(NORM, 1, True),
                                                       Kernel(ADD, 1, False))


@pytest.mark.parametrize("at_work", [BOTH, PROFILER, INTERPOSER])
def test_a_call_that_ran_nothing_has_no_kernels(at_work):
    assert kernels("amp_C", phase([], []), REGISTERED, at_work) == ()


def test_without_an_instrument_nothing_is_said():
    seen = phase(profiled(NORM), launched((NORM, NORMS)))
    assert kernels("norm", seen, REGISTERED, frozenset()) is None
    assert kernels("norm", phase(None, None), REGISTERED, BOTH) is None


def test_an_extension_with_a_runtime_inside_is_left_to_the_profiler():
    seen = phase(profiled("k(int)"), launched())
    assert kernels("static", seen, REGISTERED, BOTH) == (Kernel("k(int)", 1, True),)
    assert kernels("static", seen, REGISTERED, INTERPOSER) is None


def test_names_that_could_be_torchs_as_well_leave_it_open():
    seen = phase(profiled(CUB))
    assert kernels("amp_C", seen, REGISTERED, PROFILER) is None
    both = phase(profiled(CUB, ADAM))
    assert kernels("amp_C", both, REGISTERED, PROFILER) == (
        Kernel(CUB, 1, False), Kernel(ADAM, 1, True, ("fused_adam_cuda",)))


def test_hidden_namespaces_of_two_extensions_are_one_name():
    assert kernels("norm", phase(profiled(HIDDEN)), REGISTERED, PROFILER) == (
        Kernel(HIDDEN, 1, True, ("static",)),)


def test_an_extension_that_cannot_be_read_is_not_said_to_have_no_kernels():
    assert kernels("unreadable", phase(profiled(ADD)), REGISTERED, PROFILER) is None


def test_an_extension_without_kernels_of_its_own_runs_those_of_others():
    seen = phase(profiled("cutlass_gemm"), launched())
    assert kernels("dense", seen, REGISTERED, PROFILER) == (Kernel("cutlass_gemm", 1, False),)
    assert kernels("dense", seen, REGISTERED, BOTH) == (Kernel("cutlass_gemm", 1, False),)
    assert kernels("dense", seen, REGISTERED, INTERPOSER) == ()


def test_instruments_that_contradict_each_other_leave_it_open():
    only_profiler = phase(profiled(NORM), launched())
    only_interposer = phase(profiled(ADD), launched((NORM, NORMS)))
    assert kernels("norm", only_profiler, REGISTERED, BOTH) is None
    assert kernels("norm", only_interposer, REGISTERED, BOTH) is None


def test_a_kernel_of_another_extension_is_no_contradiction():
    seen = phase(profiled(NORM, ADAM), launched((NORM, NORMS), (ADAM, AMP)))
    found = kernels("norm", seen, REGISTERED, BOTH)
    assert found == (Kernel(NORM, 1, True), Kernel(ADAM, 1, False))


def test_a_kernel_that_the_interposer_cannot_see_is_named_all_the_same():
    # What torch.compile makes in place of the extension.
    seen = phase(profiled("triton_per_fused_native_layer_norm_0"), launched())
    assert kernels("norm", seen, REGISTERED, BOTH) == (
        Kernel("triton_per_fused_native_layer_norm_0", 1, False),)


def test_launches_of_one_name_are_added_up_by_whose_they_are():
    seen = phase(None, launched((ADAM, AMP), (ADAM, CONTRIB), (ADAM, AMP)))
    assert kernels("amp_C", seen, REGISTERED, INTERPOSER) == (
        Kernel(ADAM, 2, True, ("fused_adam_cuda",)), Kernel(ADAM, 1, False))
