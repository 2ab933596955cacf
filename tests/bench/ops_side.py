"""Runs parts of `bench ops` on a CPU: python ops_side.py; one JSON document, {case: what it found}.
"""

import json
import time

import torch

from apexlab.bench.measure.compiler import Compiler
from apexlab.bench.ops import check, measure, operands, setting
from apexlab.bench.ops.cases import Case
from apexlab.bench.ops.operands import Adam, Clip, Norm, Work
from apexlab.bench.ops.providers import PROVIDERS

torch.set_num_threads(1)
TORCH = {(op, one.name): one for one in PROVIDERS for op in one.ops if one.package == "torch"}
SMALL = ((1000,),) * 3


def judged(case, results):
    return check._worst(case, results).wrong


def wrong():
    """Whether a provider that does nothing, too much, or the right thing, is called wrong."""
    found = {}
    for dtype in ("float32", "bfloat16"):
        case = Case("adam", "small", dtype, "step", SMALL)
        for name, times in (("nothing", 0), ("twice", 2), ("right", 1)):
            adam = Adam(case, "cpu", check.ADAMW)
            step = adam.work(TORCH["adam", "torch-fused"]).calls["step"]
            work = Work({"step": lambda step=step, times=times: [step() for _ in range(times)]})
            found[f"adam {dtype} {name}"] = judged(case, check._adam(adam, work))
    for name, factor in (("smaller", 0.9), ("right", 1.0)):
        case = Case("layernorm", "small", "float32", "forward", ((64, 32),))
        norm = Norm(case, "cpu")
        work = norm.work(TORCH["layernorm", "torch"])
        forward = work.calls["forward"]
        other = Work({**work.calls, "forward": lambda forward=forward, factor=factor:
                      forward() * factor}, module=work.module)
        found[f"norm {name}"] = judged(case, check._norm(norm, other))
    for direction in ("unscale", "clip"):
        for name in ("nothing", "right"):
            case = Case("clip", "small", "float32", direction, SMALL)
            clip = Clip(case, "cpu", 0.375)
            calls = clip.work(TORCH["clip", "torch"]).calls
            work = Work(calls if name == "right" else {direction: lambda: None})
            found[f"{direction} {name}"] = judged(case, check._clip(clip, work))
    return found


def memory():
    """One provider finds no memory; the others are measured."""
    made = operands.Adam.work

    def work(self, provider):
        if provider.name == "torch-foreach":
            raise torch.cuda.OutOfMemoryError("made up")
        return made(self, provider)

    operands.Adam.work = work
    job = {"device": "cpu", "quick": True, "rounds": 1, "seed": 0, "interposer": None, "skip": {},
           "lacks": ""}
    case = Case("adam", "small", "float32", "step", SMALL)
    points = list(setting.Setting((case,), job, measure.Cpu(), lambda _: None).points())
    operands.Adam.work = made
    return {point["provider"]: [point["state"], point["why"]] for point in points}


def compiler():
    """What is said before, after one more compilation, and after the limit."""
    limit = "recompile_limit" if hasattr(torch._dynamo.config, "recompile_limit") \
        else "cache_size_limit"
    setattr(torch._dynamo.config, limit, 2)
    double = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
    said = []
    with Compiler() as watch:
        double(torch.ones(3))
        watch.settle()
        said.append(watch.changed())
        double(torch.ones(4))
        said.append(watch.changed())
        double(torch.ones(5))
        said.append(watch.changed())
    return said


def clocks():
    place = measure.Cpu()

    def call():
        time.sleep(0.002)

    return [measure.host_times(place, call, 5), measure.call_times(place, call, 5, 2)]


print(json.dumps({"wrong": wrong(), "memory": memory(), "compiler": compiler(),
                  "clocks": clocks()}))
