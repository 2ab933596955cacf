"""Runs the switches that need a GPU: python gpu_side.py; one JSON document, {case: its losses}."""

import json

import torch

from apexlab.bench.model import probes
from apexlab.bench.model.settings import Hyperparameters, Settings
from apexlab.bench.model.shape import Shape
from apexlab.bench.model.step import make_step
from apexlab.bench.model.stream import Stream

COUNT, ROWS, LENGTH = 60, 8, 64
FUSED = {"optimizer": "torch-fused", "clip": 1.0}
BF16 = {**FUSED, "precision": "amp-bf16"}
CASES = {
    "fp32": FUSED, "tf32": {**FUSED, "precision": "tf32"}, "bf16": BF16,
    "fp16": {**FUSED, "precision": "amp-fp16"},
    "fp32 graph": {**FUSED, "graph": True}, "bf16 graph": {**BF16, "graph": True},
    "bf16 foreach": {**BF16, "optimizer": "torch-foreach"},
    "bf16 foreach graph": {**BF16, "optimizer": "torch-foreach", "graph": True},
    "bf16 compile": {**BF16, "compile": True},
    "bf16 compile graph": {**BF16, "compile": True, "graph": True},
}
SHAPES = {"gpt": Shape("gpt", 64, 64, 2, 128, 2, 512),
          "llama": Shape("llama", 64, 64, 2, 128, 2, 352)}


def batches():
    stream = torch.tensor(Stream(64, 1).tokens(COUNT * ROWS * LENGTH + 1)).long().cuda()
    for part in stream.unfold(0, ROWS * LENGTH + 1, ROWS * LENGTH):
        yield part[:-1].view(ROWS, LENGTH), part[1:].view(ROWS, LENGTH)


def run(shape, switches):
    """Losses of all steps; after ten of them, a step that waits for the GPU raises."""
    step = make_step(shape, Settings(adamw=Hyperparameters(lr=3e-3), **switches), "cuda", 7)
    losses, error = [], probes.product_error("cuda")
    data = list(batches())
    seen = probes.attention_backends(lambda: losses.append(step(*data[0])))
    for number, batch in enumerate(data[1:]):
        if number == 9:
            torch.cuda.set_sync_debug_mode("error")
        losses.append(step(*batch))
    torch.cuda.set_sync_debug_mode("default")
    return {"losses": torch.stack(losses).tolist(), "product": error, "attention": seen}


print(json.dumps({f"{kind} {name}": run(shape, switches)
                  for kind, shape in SHAPES.items() for name, switches in CASES.items()}))
