"""The look and its parts on a CPU: python look_side.py FOLDER; one JSON document, {case: found}."""

import json
import logging
import subprocess
import sys
import types
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import torch

from apexlab.bench.errors import MeasureError
from apexlab.bench.measure import launches, look, parity, phases, profile
from apexlab.bench.model.settings import Settings
from apexlab.bench.model.shape import Shape
from apexlab.bench.model.step import make_step

FOLDER = Path(sys.argv[1])
SHAPES = {"gpt": Shape("gpt", 128, 32, 2, 64, 4, 128),
          "llama": Shape("llama", 128, 32, 2, 64, 4, 96)}
CPU = torch.device("cpu")
torch.set_num_threads(1)  # the tensors are small, and the machine may be busy

LIAR = """
import torch
class FusedAdam(torch.optim.AdamW):
    def __init__(self, parameters, adam_w_mode, bias_correction, **more):
        super().__init__(parameters, **more)
"""
LYING_NORM = """
import warnings
import torch
class FusedLayerNorm(torch.nn.LayerNorm):
    def forward(self, x):
        warnings.warn("made up, at every call", FutureWarning)
        return super().forward(x)
"""


def task(kind="gpt", steps=40, baseline=False, trace=None, **switches):
    return {"kind": "look", "scenario": "made up", "settings": asdict(Settings(**switches)),
            "shape": asdict(SHAPES[kind]), "batch": 4, "seed": 3,
            "data": {"kind": "stream", "seed": 3}, "device": "cpu", "gpus": 1, "timing": {},
            "parity": {"steps": steps, "baseline": baseline}, "interposer": None, "trace": trace}


def looked(**asked):
    told = []
    found = look.look(task(**asked), lambda *said: told.append(said))
    json.dumps(found, allow_nan=False)
    return {**found, "told": told}


def everything():
    return looked(baseline=True, trace=str(FOLDER / "trace.json"))


def low():
    return looked(kind="llama", steps=3, precision="amp-bf16", norm="torch-lowp",
                  optimizer="torch-fused")


def lying():
    """Classes with the names of Apex's, and torch's code in them."""
    apex = FOLDER / "apex"
    for name, text in (("optimizers", LIAR), ("normalization", LYING_NORM)):
        (apex / name).mkdir(parents=True, exist_ok=True)
        (apex / name / "__init__.py").write_text(text)
    (apex / "__init__.py").touch()
    sys.path.insert(0, str(FOLDER))
    return looked(steps=3, optimizer="apex", norm="apex")


class Faulty(look.Look):
    """A look one probe of which fails."""

    error = ValueError("made up")

    def norm_dtypes(self):
        raise self.error


def failing():
    """What becomes of a probe's error: [norm_dtypes, parity is there, failures] or its name."""
    found = {}
    for name, error in {"bug": ValueError("made up"), "memory": MemoryError("made up"),
                        "torch memory": torch.cuda.OutOfMemoryError("CUDA out of memory"),
                        "measure": MeasureError("made up")}.items():
        Faulty.error = error
        faulty = Faulty(task(steps=2), lambda *_: None)
        try:
            told = faulty.everything()
            found[name] = [told["norm_dtypes"], bool(told["parity"]["losses"]), faulty.failures]
        except Exception as raised:
            found[name] = type(raised).__name__
    return found


def no_number():
    looking = look.Look(task(steps=2), lambda *_: None)
    with torch.no_grad():
        looking.eager.parameters[0].fill_(float("nan"))
    try:
        looking.everything()
    except MeasureError as error:
        return str(error)


def recompiled():
    """A look in which torch gave up compiling; it says so in its log alone."""
    looking = look.Look(task(steps=2), lambda *_: None)
    logging.getLogger("torch._dynamo.convert_frame").warning(
        "torch._dynamo hit config.recompile_limit (8)")
    try:
        looking.everything()
    except MeasureError as error:
        return str(error)


def split():
    """{optimizer: [phases, step_seconds, skipped steps' answer]} with a scaler and without."""
    found = {}
    for optimizer in ("torch-foreach", "torch-fused"):
        for scale in (None, 1024.0):
            step = make_step(SHAPES["gpt"], Settings(optimizer=optimizer), "cpu", 1)
            step.scaler = scale and torch.amp.GradScaler("cpu", init_scale=scale)
            batch = parity_batch()
            step(*batch)
            timed = phases.Phases(step, lambda: batch)  # noqa: B023
            found[f"{optimizer} {scale}"] = [timed.medians(0.01), len(timed.losses)]
    return found


def parity_batch():
    tokens = torch.arange(4 * 33).remainder(127).view(4, 33)
    return tokens[:, :-1], tokens[:, 1:]


def overflowing(step, times):
    """The step with a scaler whose gradients overflow so many times."""
    step.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    left = [True] * times
    step.parameters[0].register_hook(lambda g: g * float("inf") if left and left.pop() else g)
    return step


def skipping():
    """Medians where the scaler skipped two steps of three, and all of them."""
    batch = parity_batch()
    steps = [overflowing(make_step(SHAPES["gpt"], Settings(), "cpu", 1), times)
             for times in (2, 100)]
    return [phases.Phases(step, lambda: batch).medians(10.0) for step in steps]


def ordered_clock():
    """The parts by a clock that counts its marks: each mark is one second after the last."""
    class Counting:
        now = 0

        def mark(self):
            self.now += 1
            return self.now

        def between(self, one, other):
            return float(other - one)

    found = {}
    for scale in (None, 1024.0):
        step = make_step(SHAPES["gpt"], Settings(), "cpu", 1)
        step.scaler = scale and torch.amp.GradScaler("cpu", init_scale=scale)
        batch = parity_batch()
        timed = phases.Phases(step, lambda: batch)  # noqa: B023
        timed.clock = Counting()
        found[str(scale)] = timed.medians(10.0)
    return found


def first_step():
    """{case: [gradient_error, update_error]}: what is off shows in the right one."""
    found = {}
    data = {kind: parity.batches(kind, 5, 1, "cpu")[0] for kind in parity.SHAPES}
    cases = {"gpt": ("gpt", {}, {}), "llama": ("llama", {}, {}), "bf16": (
        "gpt", {"precision": "amp-bf16"}, {}), "fused": ("gpt", {"optimizer": "torch-fused"}, {}),
        "no decay": ("gpt", {}, {"weight_decay": 0.0}), "lr": ("gpt", {}, {"lr": 3.3e-3}),
        "eps": ("gpt", {}, {"eps": 1e-3})}
    for name, (kind, switches, wrong) in cases.items():
        settings = replace(Settings(**switches), adamw=parity.ADAMW)
        step = make_step(parity.SHAPES[kind], settings, "cpu", 1)
        step.optimizer.param_groups[0].update(wrong)
        told = parity.one_step(step, data[kind])
        found[name] = [told["gradient_error"], told["update_error"]]
    for times in (0, 3, 100):
        step = make_step(parity.SHAPES["gpt"], replace(Settings(), adamw=parity.ADAMW), "cpu", 1)
        told = parity.one_step(overflowing(step, times), data["gpt"])
        found[f"skipped {times}"] = [told["gradient_error"], told["update_error"]]
    return found


def worst():
    one, nan = torch.ones(3), torch.tensor([1.0, float("nan"), 1.0])
    return [parity.worst([one, 2 * one], [one, one]), parity.worst([one], [0 * one]),
            parity.worst([nan], [one]), parity.worst([one * float("inf")], [one])]


def curves():
    """The same twice, another seed, and one that ends in no number."""
    one = parity.curve(Settings(), "gpt", "cpu", 1, 2, 5)
    settings = replace(Settings(), adamw=replace(parity.ADAMW, lr=1e30))
    return [one, parity.curve(Settings(), "gpt", "cpu", 1, 2, 5),
            parity.curve(Settings(), "gpt", "cpu", 2, 2, 5),
            parity.curve(settings, "gpt", "cpu", 1, 2, 5)]


def files():
    """Modules and libraries under names of extensions, and a library of another name."""
    for name in ("_amp_C.abi3.so", "_other.abi3.so"):
        subprocess.run(["gcc", "-shared", "-o", FOLDER / name, "-x", "c", "/dev/null"], check=True)
        torch.ops.load_library(str(FOLDER / name))
    module = types.ModuleType("syncbn")
    (FOLDER / "link.so").symlink_to(FOLDER / "_amp_C.abi3.so")
    module.__file__ = str(FOLDER / "link.so")
    sys.modules["syncbn"] = module
    sys.modules["mlp_cuda"] = types.ModuleType("mlp_cuda")  # without a file
    return launches.loaded_files()


def watching():
    ran = []
    seen = launches.watch_step(lambda: ran.append(1), "/no/such/library", "cpu")
    return [seen, len(ran), launches.steps_before(Settings()),
            launches.steps_before(Settings(graph=True))]


def whole():
    """Which step counts: the first that the scaler lets through, but not without end."""
    found = []
    for times in (0, 3, 1000):
        step, ran = overflowing(make_step(SHAPES["gpt"], Settings(), "cpu", 1), times), []

        def once(step=step, ran=ran):
            step(*parity_batch())
            ran.append(1)
            return len(ran)

        found.append(launches.until_whole(once, step.scaler.state_dict))
    return [*found, launches.until_whole(once, dict)]


def told():
    """Which instrument speaks: {case: its name}."""
    good = {"interposer": [1], "profiler": [1]}
    cases = {"both": (good, [1], [1]), "no interposer": ({**good, "interposer": None}, None, [1]),
             "blind interposer": ({**good, "interposer": []}, [1], [1]),
             "nothing": ({"interposer": None, "profiler": []}, None, [])}
    return {name: launches.told(SimpleNamespace(interposer=launched, profiler=profiled),
                                [{"add": control, "layer_norm": good}])["instrument"]
            for name, (control, launched, profiled) in cases.items()}


def traces():
    """[path, first bytes, ranges] and what a trace that is too large leaves."""
    step = make_step(SHAPES["gpt"], Settings(), "cpu", 1)
    path, losses = profile.write_trace(step, parity_batch, CPU, FOLDER / "own.json")
    profile.MOST_BYTES = 10
    try:
        profile.write_trace(step, parity_batch, CPU, FOLDER / "large.json")
        why = ""
    except OSError as error:
        why = str(error)
    return [path, Path(path).read_bytes()[:2].hex(), len(losses), why,
            [name.name for name in FOLDER.iterdir() if "large" in name.name]]


def texts():
    sync = "called a synchronizing CUDA operation"
    return look.distinct(["one", "two\n  lines", "one", sync, "x" * 400])


def state():
    """Of the loop's AdamW, and of one with master weights."""
    step = make_step(SHAPES["gpt"], Settings(optimizer="torch-fused"), "cpu", 1)
    step(*parity_batch())
    own = look.optimizer_state(step.optimizer)
    masters = SimpleNamespace(state={1: {"step": 3, "exp_avg": torch.zeros(4, dtype=torch.half)}},
                              param_groups_master=[{"params": [torch.zeros(2), torch.zeros(3)]}])
    return [own, sum(p.numel() for p in step.parameters), look.optimizer_state(masters)]


def busy():
    kernels = [{"us": 30.0}, {"us": 20.0}, {"us": None}]
    return [look.busy(kernels, 1e-4), look.busy(kernels, 1e-5), look.busy([], 1.0),
            look.busy(kernels, None)]


def with_files():
    kernels = [{"name": name, "us": us, "file": None}
               for name, us in (("a", 1), ("b", 3), ("c", 2))]
    launched = [{"name": "a", "file": "/x"}, {"name": "b", "file": "/x"},
                {"name": "b", "file": "/y"}]
    return [[one["name"], one["file"]] for one in look.with_files(kernels, launched)]


CASES = (everything, low, lying, failing, no_number, recompiled, split, skipping, ordered_clock,
         first_step, worst, curves, watching, whole, told, traces, texts, state, busy, with_files,
         files)
warnings.simplefilter("default")
print(json.dumps({case.__name__: case() for case in CASES}))
