"""From what instruments saw in a process to its proof; the kernels are made up but for their form.
"""

import pytest

from apexlab.bench.model.settings import Settings
from apexlab.bench.planning.scenario import Scenario, scenarios
from apexlab.bench.run.proof import apex_share, owners, proof
from apexlab.verify.attribute import Registered

ADD = "void at::native::vectorized_elementwise_kernel<4, AddFunctor>(int)"
TORCH_NORM = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float>(int)"
TORCH_ADAM = "void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor>(int)"
ADAM = "void multi_tensor_apply_kernel<AdamFunctor<float>>(long)"
NORM = "void cuApplyLayerNorm<float>(float*)"
GEMM, TRITON = "sm90_xmma_gemm_f32", "triton_poi_fused_add_0"
TORCH, AMP, CONTRIB, NORMS = "/t/libtorch_cuda.so", "/s/amp_C.so", "/s/contrib.so", "/s/norm.so"
FILES = {"amp_C": AMP, "fused_layer_norm_cuda": NORMS}
REGISTERED = Registered(
    names={"amp_C": frozenset({ADAM}), "fused_layer_norm_cuda": frozenset({NORM}),
           "fused_adam_cuda": frozenset({ADAM})},
    paths={**FILES, "fused_adam_cuda": CONTRIB}, dynamic=frozenset({*FILES, "fused_adam_cuda"}),
    torch=frozenset({ADD, TORCH_NORM, TORCH_ADAM}))
BOTH, ADAM_ALONE = scenarios()["apex-amp-fp16"], scenarios()["apex-adam-fp32"]
NONE, COMPILED = scenarios()["torch-fp32"], scenarios()["apex-adam-amp-bf16-compile"]
GRAPH = Scenario("graph", Settings(optimizer="apex-capturable", graph=True))
LIE = {"add": ADD, "layer_norm": TORCH_NORM}


def seen(instrument, *pairs):
    return [{"name": name, "count": 2, "file": file if instrument == "interposer" else None,
             "us": None if instrument == "interposer" else 5.0} for name, file in pairs]


def check(instrument, **changed):
    """The controls of one instrument, but for what is changed."""
    answer = {}
    for name, kernel in LIE.items():
        views = {"profiler": None, "interposer": None}
        views[instrument] = changed.get(name, seen(instrument, (kernel, TORCH)))
        answer[name] = views
    return answer


def result(*pairs, instrument="interposer", controls=None, files=FILES, **more):
    return {"launches": {"instrument": instrument, "step": seen(instrument, *pairs),
                         "controls": controls or [check(instrument), check(instrument)]},
            "files": files, **more}


REAL = ((ADAM, AMP), (NORM, NORMS), (ADD, TORCH))


@pytest.mark.parametrize("instrument", ["interposer", "profiler"])
def test_each_part_is_proven_by_kernels_of_its_own_extension(instrument):
    found = proof(BOTH, result(*REAL, instrument=instrument), REGISTERED)
    assert found == {"verdict": "proven", "why": (
        "the optimizer launched 2 kernels of amp_C; the norm launched 2 kernels of "
        "fused_layer_norm_cuda."), "parts": [
        {"part": "optimizer", "extension": "amp_C", "kernels": [{"name": ADAM, "count": 2}],
         "instrument": instrument},
        {"part": "norm", "extension": "fused_layer_norm_cuda",
         "kernels": [{"name": NORM, "count": 2}], "instrument": instrument}]}


@pytest.mark.parametrize("instrument", ["interposer", "profiler"])
@pytest.mark.parametrize(("ran", "lies"), [
    (((ADAM, AMP), (TORCH_NORM, TORCH)), ["norm"]), (((TORCH_ADAM, TORCH), (NORM, NORMS)),
                                                     ["optimizer"]),
    (((TORCH_ADAM, TORCH), (TORCH_NORM, TORCH)), ["optimizer", "norm"])])
def test_torchs_kernels_under_the_names_of_apex_prove_nothing(instrument, ran, lies):
    found = proof(BOTH, result(*ran, instrument=instrument), REGISTERED)
    assert found["verdict"] == "not-proven"
    assert [part["part"] for part in found["parts"] if not part["kernels"]] == lies
    assert all(f"the {part} ran none of" in found["why"] for part in lies)


def test_a_kernel_of_the_right_name_from_another_file_proves_nothing():
    found = proof(ADAM_ALONE, result((ADAM, "/elsewhere/amp_C.so")), REGISTERED)
    assert found["verdict"] == "not-proven"


def test_the_file_that_was_loaded_has_to_be_the_one_that_was_read():
    # Both have the same kernels, and without a file the profiler cannot tell them apart.
    for files, what in (({"amp_C": "/other/amp_C.so"}, "/other/amp_C.so"), ({}, "none")):
        found = proof(ADAM_ALONE, result((ADAM, None), instrument="profiler", files=files),
                      REGISTERED)
        assert found["verdict"] == "not-proven"
        assert found["why"].endswith(f"{AMP}, and what the optimizer loaded is {what}.")


def test_the_same_kernel_of_another_extension_of_apex_is_no_proof():
    found = proof(ADAM_ALONE, result((ADAM, CONTRIB)), REGISTERED)
    assert found["verdict"] == "not-proven"


@pytest.mark.parametrize("controls", [
    [check("interposer"), check("interposer", add=[])],
    [check("interposer", layer_norm=None), check("interposer")],
    [check("interposer", add=seen("interposer", (ADAM, AMP)))]])
def test_an_instrument_that_failed_a_control_is_blind(controls):
    found = proof(BOTH, result(*REAL, controls=controls), REGISTERED)
    assert found["verdict"] == "blind"
    assert found["why"].startswith("no instrument here sees which kernels of amp_C ran")
    assert [part["kernels"] for part in found["parts"]] == [[], []]


@pytest.mark.parametrize("nothing", [
    {}, {"launches": None}, {"launches": {"instrument": None, "controls": [], "step": []}}])
def test_where_nothing_was_seen_nothing_is_proven(nothing):
    assert proof(BOTH, nothing, REGISTERED)["verdict"] == "blind"
    assert proof(NONE, nothing, REGISTERED)["verdict"] == "not-needed"


def test_without_a_file_of_the_extension_it_is_not_proven_whoever_saw():
    nothing = Registered({}, {}, frozenset(), REGISTERED.torch)
    found = proof(BOTH, result((TORCH_ADAM, TORCH)), nothing)
    assert found["verdict"] == "not-proven"
    assert "needs amp_C, of which there is no file here" in found["why"]


def test_a_part_that_is_not_proven_weighs_more_than_one_that_nobody_saw():
    static = Registered(REGISTERED.names, REGISTERED.paths, frozenset({"fused_layer_norm_cuda"}),
                        REGISTERED.torch)
    assert proof(BOTH, result((TORCH_NORM, TORCH)), static)["verdict"] == "not-proven"
    assert proof(BOTH, result((NORM, NORMS)), static)["verdict"] == "blind"


def test_a_scenario_without_apex_says_so_when_apex_ran_all_the_same():
    quiet = proof(NONE, result((ADD, TORCH)), REGISTERED)
    assert quiet == {"verdict": "not-needed", "why": "", "parts": []}
    found = proof(NONE, result((ADD, TORCH), (NORM, NORMS)), REGISTERED)
    assert found["verdict"] == "not-needed"
    assert found["why"] == ("No part of Apex was asked for, and 2 kernels of "
                            "fused_layer_norm_cuda ran.")


def test_a_compiled_scenario_needs_only_its_own_part():
    found = proof(COMPILED, result((ADAM, AMP)), REGISTERED)
    assert (found["verdict"], len(found["parts"])) == ("proven", 1)


def test_a_graph_is_proven_by_what_was_captured():
    found = proof(GRAPH, result((ADAM, AMP)), REGISTERED)
    assert found["why"] == ("the optimizer launched 2 kernels of amp_C, in the step that was "
                            "captured and is replayed.")


KERNELS = [{"name": name, "count": 1, "us": us, "file": None} for name, us in (
    (ADD, 10.0), (ADAM, 20.0), (GEMM, 50.0), (NORM, 15.0), (TRITON, 5.0))]


def both(*pairs):
    """A look's result: both instruments at work."""
    found = result(*pairs, kernels=KERNELS)
    for one in found["launches"]["controls"]:
        for name, views in one.items():
            views["profiler"] = seen("profiler", (LIE[name], None))
    return found


def test_the_kernels_of_a_look_have_owners_and_shares():
    found = owners(both(*REAL), REGISTERED)
    assert [(one["name"], one["share"], one["owner"]) for one in found] == [
        (GEMM, 0.5, None), (ADAM, 0.2, "amp_C"), (NORM, 0.15, "fused_layer_norm_cuda"),
        (ADD, 0.1, "torch"), (TRITON, 0.05, "triton")]
    assert apex_share(both(*REAL), REGISTERED) == pytest.approx(0.35)


def test_a_name_that_two_extensions_register_is_the_steps_own():
    seen_by_name = result(*REAL, instrument="profiler", kernels=KERNELS)
    assert owners(seen_by_name, REGISTERED)[1]["owner"] == "amp_C"


def test_the_profiler_speaks_for_an_extension_with_a_runtime_of_its_own():
    static = Registered(REGISTERED.names, REGISTERED.paths, frozenset(), REGISTERED.torch)
    part, = proof(ADAM_ALONE, both((ADD, TORCH)), static)["parts"]
    assert (part["instrument"], part["kernels"]) == ("profiler", [{"name": ADAM, "count": 1}])


def test_without_an_instrument_that_works_the_share_of_apex_is_not_known():
    blind = result(*REAL, kernels=KERNELS, controls=[check("interposer", add=[])])
    assert apex_share(blind, REGISTERED) is None
    assert apex_share(result(*REAL), REGISTERED) is None
    assert apex_share(result(kernels=[], instrument=None, controls=[check("profiler")]),
                      REGISTERED) is None
    assert "amp_C" not in [one["owner"] for one in owners(blind, REGISTERED)]
