"""Looks on a GPU: python look_gpu_side.py FOLDER [INTERPOSER]; one JSON document.

The interposer has to be in LD_PRELOAD as well.
"""

import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import torch

from apexlab.bench.measure import launches
from apexlab.bench.measure.look import look
from apexlab.bench.model.settings import Settings
from apexlab.bench.model.shape import Shape
from apexlab.bench.model.step import make_step
from apexlab.bench.planning.scenario import Scenario
from apexlab.bench.run.apex import find_subject
from apexlab.bench.run.proof import apex_share, judge, owners

FOLDER, LIBRARY = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None
SHAPE = Shape("gpt", 512, 256, 4, 256, 4, 1024)
BF16 = {"precision": "amp-bf16", "optimizer": "torch-fused"}
CASES = {
    "fp32": {}, "tf32": {"precision": "tf32"}, "bf16": BF16,
    "fp16": {"precision": "amp-fp16"}, "fp16 fused": {**BF16, "precision": "amp-fp16"},
    "lowp": {**BF16, "norm": "torch-lowp"}, "graph": {**BF16, "graph": True},
    "compile": {**BF16, "compile": True}, "lying": {"norm": "apex", "optimizer": "apex"},
}
LIAR = """
import torch
class FusedAdam(torch.optim.AdamW):
    def __init__(self, parameters, adam_w_mode, bias_correction, **more):
        super().__init__(parameters, **more, fused=True)
class FusedLayerNorm(torch.nn.LayerNorm): pass
"""


def make_liar():
    """A package apex with torch's code in its classes, and extensions that nobody calls."""
    for part in ("optimizers", "normalization"):
        (FOLDER / "apex" / part).mkdir(parents=True)
        (FOLDER / "apex" / part / "__init__.py").write_text(LIAR)
    (FOLDER / "apex" / "__init__.py").touch()
    for name in ("amp_C", "fused_layer_norm_cuda"):
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", FOLDER / f"{name}.so", "-x", "c", "-"],
                       input=f"void *PyInit_{name}(void) {{ return 0; }}\n", text=True, check=True)
    sys.path.insert(0, str(FOLDER))


def task(name, switches):
    trace = str(FOLDER / "trace.json") if name == "bf16" else None
    return {"settings": asdict(Settings(**switches)), "shape": asdict(SHAPE), "batch": 8,
            "seed": 3, "data": {"kind": "stream", "seed": 3}, "device": "cuda",
            "parity": {"steps": 200, "baseline": name == "fp32"}, "interposer": LIBRARY,
            "trace": trace}


def looked(name, switches, subject):
    start = time.perf_counter()
    found = look(task(name, switches), lambda *_: None)
    json.dumps(found, allow_nan=False)
    found["seconds"] = time.perf_counter() - start
    found["proof"] = judge(Scenario(name, Settings(**switches)), found, subject)
    found["share"] = apex_share(found, subject.registered)
    found["owners"] = owners(found, subject.registered)
    return found


def timed():
    """A step as a timed process watches it."""
    step = make_step(SHAPE, Settings(), "cuda", 1)
    tokens = torch.randint(512, (8, 256), device="cuda")
    step(tokens, tokens)
    start = time.perf_counter()
    seen = launches.watch_step(lambda: step(tokens, tokens), LIBRARY, "cuda")
    return {**seen, "seconds": time.perf_counter() - start}


make_liar()
watched = timed()  # first, before a profiler was at work
subject = find_subject()
print(json.dumps({"timed": watched, **{
    name: looked(name, switches, subject) for name, switches in CASES.items()}}))
