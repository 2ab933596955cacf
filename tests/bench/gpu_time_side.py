"""Runs the timing on a GPU: python gpu_time_side.py FOLDER; one JSON document, {case: finding}.

Faults are put into steps here, in this process. `python gpu_time_side.py FOLDER GPUS` prints a task
for that many GPUs.
"""

import gc
import hashlib
import itertools
import json
import sys
from dataclasses import asdict
from pathlib import Path

import torch

from apexlab.bench.measure import blocks, data, memory
from apexlab.bench.measure.blocks import Training
from apexlab.bench.measure.endings import ending
from apexlab.bench.measure.ranks import Ranks
from apexlab.bench.measure.worker import Worker
from apexlab.bench.model.settings import Settings
from apexlab.bench.model.shape import Shape
from apexlab.bench.model.step import Step, make_step
from apexlab.bench.planning.plan import Timing

FOLDER = Path(sys.argv[1])
GPU = torch.device("cuda", 0)
ALONE = Ranks(GPU)
SHAPE = Shape("gpt", 512, 128, 4, 256, 4, 1024)
QUICK = Timing(6, 30, 0.2, 3, 0.05)
MIB = 2**20


def text():
    path = FOLDER / "text"
    path.write_bytes(bytes(n * 7 % 251 for n in range(200_000)))
    return {"kind": "text", "path": str(path),
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def training(source=None, of=Step, **switches):
    step = make_step(SHAPE, Settings(**switches), "cuda:0", 7)
    if of is not Step:
        step = of(step.model, step.optimizer, step.settings, GPU, step.scaler)
    return Training(step, source or data.Pool(3, SHAPE, 8, ALONE), GPU)


def no_wait():
    """{source: did a step of a block wait}; the control waits."""
    found = {}
    for name, source in (("stream", None),
                         ("text", data.source(text(), SHAPE, 8, ALONE))):
        run = training(source, optimizer="torch-fused", precision="amp-bf16")
        run.run(10)
        events = blocks.make_events(GPU, 5)
        torch.cuda.set_sync_debug_mode("error")
        try:
            losses = run.steps(5, events)
            found[name] = False
        except RuntimeError as error:
            found[name] = str(error)
        torch.cuda.set_sync_debug_mode("default")
        run.note(losses)
    torch.cuda.set_sync_debug_mode("error")
    try:
        float(losses[0])
        found["control"] = False
    except RuntimeError:
        found["control"] = True
    torch.cuda.set_sync_debug_mode("default")
    return found


def events():
    """[seconds of the blocks by the host, by the GPU, steps, steps by the GPU]."""
    run = training()
    warm = blocks.warm_up(run, QUICK, ALONE, lambda *_: None)
    found = blocks.measure(run, QUICK, warm.seconds, ALONE, lambda *_: None)
    return [sum(found.seconds) * found.per_block, sum(found.steps) / 1e3, found.ran,
            len(found.steps)]


def skips():
    """{case: [void blocks, counted blocks]} of FP16 with a scaler."""
    class Overflowing(Step):
        numbers = itertools.count(1)

        def backward(self, loss):
            super().backward(loss)
            if next(self.numbers) in self.at:
                self.parameters[0].grad[0, 0] = float("inf")

    found = {}
    for name, at, optimizer in (
            ("none", (), "torch-foreach"), ("one", (102,), "torch-foreach"),
            ("one, fused", (102,), "torch-fused"), ("ever", range(100, 1000), "torch-fused")):
        Overflowing.at, Overflowing.numbers = at, itertools.count(1)
        run = training(of=Overflowing, precision="amp-fp16", optimizer=optimizer)
        run.run(100)  # the scale is found by then
        try:
            got = blocks.measure(run, Timing(2, 2, 1, 3, 0.0), 1.0, ALONE, lambda *_: None)
            found[name] = [got.void, len(got.seconds)]
        except Exception as error:
            found[name] = [type(error).__name__, str(error)]
    return found


def memories():
    found = {}
    for name, switches in (("plain", {}), ("graph", {"graph": True})):
        run = training(optimizer="torch-fused", **switches)
        run.run(3)
        memory.reset(GPU)
        run.run(1)
        captured = memory.read(GPU) if switches else None
        found[name] = memory.peaks(run.run, GPU, memory.retries(GPU), captured)
        found[f"{name} optimizer"] = memory.optimizer_peak(run.step, run.data, GPU)
        del run
        gc.collect()
    found["least"] = 16 * SHAPE.parameters()

    class Greedy(Step):
        def update(self):
            torch.empty(512 * MIB, dtype=torch.uint8, device=GPU)
            super().update()

    run = training(of=Greedy, optimizer="torch-fused")
    run.run(2)
    found["greedy optimizer"] = memory.optimizer_peak(run.step, run.data, GPU)
    found["greedy"] = memory.peaks(run.run, GPU, memory.retries(GPU))
    return found


def no_memory():
    try:
        torch.empty(2**45, device=GPU)
    except Exception as error:
        return ending(error, 0)


def task(gpus=1, source=None, **switches):
    return {"kind": "time", "scenario": "made for this test",
            "settings": asdict(Settings(**switches)), "shape": asdict(SHAPE), "batch": 8,
            "seed": 1, "data": source or {"kind": "stream", "seed": 0}, "device": "cuda",
            "gpus": gpus, "timing": asdict(QUICK), "interposer": None, "trace": None}


def whole():
    """Results of the worker, by scenario."""
    cases = {"fp16": {"precision": "amp-fp16"}, "graph": {"optimizer": "torch-fused",
                                                          "graph": True},
             "compiled": {"optimizer": "torch-fused", "precision": "amp-bf16", "compile": True},
             "text": {"source": text()}}
    return {name: Worker(task(**case)).run() for name, case in cases.items()}


if len(sys.argv) > 2:
    print(json.dumps(task(int(sys.argv[2]), optimizer="torch-fused", precision="amp-bf16")))
else:
    print(json.dumps({case.__name__: case()
                      for case in (no_wait, events, skips, memories, no_memory, whole)}))
