"""Started by torchrun with two processes on a CPU: ranks_side.py same FOLDER | fail TASK RESULT

`same`: trains on two ranks, and rank 0 alone with the doubled batch; FOLDER/same.json gets how far
they are apart. `fail`: a worker whose model breaks on rank 1.
"""

import functools
import json
import os
import sys
from pathlib import Path

import torch

from apexlab.bench.measure import worker
from apexlab.bench.measure.data import Pool
from apexlab.bench.measure.ranks import Ranks, join
from apexlab.bench.model.settings import Settings
from apexlab.bench.model.shape import Shape
from apexlab.bench.model.step import make_step
from apexlab.bench.model.transformer import Transformer

SHAPE = Shape("llama", 64, 16, 2, 32, 2, 48)
RANK = int(os.environ["RANK"])


def trained(ranks, batch, settings):
    """(losses, gradients of the first step, weights after three) of this rank."""
    step = make_step(SHAPE, settings, "cpu", 7, ranks.wrap)
    source, losses, first = Pool(3, SHAPE, batch, ranks), [], None
    for _ in range(3):
        loss = step.forward(*source())
        step.backward(loss)
        losses.append(float(loss.detach()))
        first = first or [p.grad.clone() for p in step.parameters]
        step.update()
    return losses, first, [p.detach() for p in step.parameters]


def apart(ours, theirs):
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(ours, theirs,
                                                                          strict=True))


def compared(ranks, settings):
    losses, gradients, weights = trained(ranks, 2, settings)
    every = ranks.gathered(losses)
    if RANK:
        return None
    whole, exact, end = trained(Ranks(torch.device("cpu")), 4, settings)
    return {"losses": [sum(pair) / 2 for pair in zip(*every, strict=True)], "doubled": whole,
            "own": losses, "gradients": apart(gradients, exact), "weights": apart(weights, end)}


products = []


def backend(graph, inputs):
    """In place of torch's own, which takes a while; it counts the products that it was given."""
    products.extend(node for node in graph.graph.nodes if "linear" in str(node.target))
    return graph.forward


def same(folder):
    ranks = join("cpu", 2, Settings())
    torch.compile = functools.partial(torch.compile, backend=backend)
    found = {"plain": compared(ranks, Settings()),
             "compiled": compared(ranks, Settings(compile=True)),
             "highest": ranks.highest(float(RANK)), "gathered": ranks.gathered([RANK, 5.0])}
    found["products"] = len(products)
    if not RANK:
        (Path(folder) / "same.json").write_text(json.dumps(found))
    ranks.close()


def fail(task, result):
    plain = Transformer.forward

    def broken(self, tokens, targets):
        broken.calls += 1
        if RANK and broken.calls == 5:
            raise LookupError("broken on purpose\nby this test")
        return plain(self, tokens, targets)

    broken.calls, Transformer.forward = 0, broken
    code = worker.main(Path(task), Path(result))
    sys.stdout.flush()
    os._exit(code)


{"same": same, "fail": fail}[sys.argv[1]](*sys.argv[2:])
