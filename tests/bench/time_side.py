"""Runs the timing on a CPU: python time_side.py FOLDER; one JSON document, {case: what it found}.

Faults are put into steps and sources here, in this process; the product knows nothing of them.
"""

import itertools
import json
import math
import resource
import sys
import time
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from apexlab.bench.errors import MeasureError
from apexlab.bench.measure import blocks, data, memory, timing
from apexlab.bench.measure.blocks import Training
from apexlab.bench.measure.endings import ending
from apexlab.bench.measure.ranks import Ranks, join
from apexlab.bench.model.settings import Settings
from apexlab.bench.model.shape import Shape
from apexlab.bench.model.step import Step, make_step
from apexlab.bench.model.stream import Stream
from apexlab.bench.planning.plan import Timing

torch.set_num_threads(1)
FOLDER = Path(sys.argv[1])
CPU = torch.device("cpu")
ALONE = Ranks(CPU)
SHAPE = Shape("gpt", 256, 16, 1, 16, 2, 32)
QUICK = Timing(least_warmup=4, most_warmup=12, agree=0.5, blocks=3, block_seconds=0.03)


def stream(ranks=ALONE, batch=2):
    return data.Pool(3, SHAPE, batch, ranks)


def nothing(at, step):
    pass


def training(step=None):
    return Training(step or make_step(SHAPE, Settings(), "cpu", 7), stream(), CPU)


def faulty(change, scaler=None):
    """A training whose step calls `change(step, number)` after it went backward."""

    class Faulty(Step):
        numbers = itertools.count(1)

        def backward(self, loss):
            super().backward(loss)
            change(self, next(self.numbers))

        def forward(self, tokens, targets):
            loss = super().forward(tokens, targets)
            return loss * getattr(self, "factor", 1.0)

    plain = make_step(SHAPE, Settings(), "cpu", 7)
    return training(Faulty(plain.model, plain.optimizer, plain.settings, CPU, scaler))


def raised(call, *arguments):
    try:
        return call(*arguments)
    except (MeasureError, RuntimeError) as error:
        return [type(error).__name__, str(error)]


def measured():
    lines = []
    run = training()
    warm = blocks.warm_up(run, QUICK, ALONE, lambda *line: lines.append(line))
    before = run.done
    begin = time.monotonic()
    found = blocks.measure(run, QUICK, warm.seconds, ALONE, lambda *line: lines.append(line))
    return {"per_block": found.per_block, "seconds": found.seconds, "events": found.steps,
            "void": found.void, "ran": found.ran, "done": run.done - before,
            "window": [found.window[0] - begin, found.window[1] - begin],
            "took": time.monotonic() - begin, "warm": before, "step": warm.seconds,
            "losses": [run.first, run.last], "lines": lines}


class Sleeping:
    """A step that takes as long as it is told, by its number from 0."""

    def __init__(self, seconds):
        self.seconds, self.calls = seconds, 0

    def __call__(self, tokens, targets):
        time.sleep(self.seconds(self.calls))
        self.calls += 1
        return torch.tensor(1.0)


def warming():
    """{case: [steady, steps]} for windows of 4 steps."""
    timing_ = Timing(8, 40, 0.3, 1, 0.02)
    cases = {"even": lambda _: 0.01, "slow at first": lambda n: max(0.01, 0.1 * 0.85**n),
             "never even": lambda n: 0.03 if n // 4 % 2 else 0.01}
    found = {}
    for name, seconds in cases.items():
        run = training(Sleeping(seconds))
        found[name] = [blocks.warm_up(run, timing_, ALONE, nothing).steady, run.done]
    return found


def block_length():
    run = training(Sleeping(lambda _: 0.01))
    found = blocks.measure(run, Timing(2, 2, 1, 2, 0.1), run.run(5) / 5, ALONE, nothing)
    return [found.per_block, found.seconds]


def not_a_number():
    found = []
    for factor in (math.nan, math.inf):
        run = faulty(lambda step, number: setattr(step, "factor", factor if number == 6 else 1))  # noqa: B023
        found.append([*raised(run.run, 20), run.done])
    return found


def scaler(**keywords):
    return torch.amp.GradScaler("cpu", init_scale=1024.0, **keywords)


def overflow(step):
    step.parameters[0].grad[0, 0] = float("inf")


def skips():
    """Blocks with an overflow now and then, ever again, and one hidden behind a growth."""
    found, once = {}, Timing(2, 2, 1, 3, 0.0)

    def run(change, keep, seconds=1.0):
        train = faulty(change, keep)
        got = raised(blocks.measure, train, once, seconds, ALONE, nothing)
        if isinstance(got, list):
            return got
        return [got.void, len(got.seconds), train.done, train.scale()["scale"]]

    found["none"] = run(lambda step, number: None, scaler())
    found["one"] = run(lambda step, number: overflow(step) if number == 2 else None, scaler())
    found["ever"] = run(lambda step, number: overflow(step), scaler())
    hidden = faulty(lambda step, number: overflow(step) if number == 5 else None,
                    scaler(growth_interval=3))
    before = hidden.scale()
    hidden.run(5)
    found["hidden"] = [before["scale"], hidden.scale()["scale"],
                       blocks.skipped(before, hidden.scale(), 5)]
    grown = faulty(lambda step, number: None, scaler(growth_interval=3))
    before = grown.scale()
    grown.run(7)
    found["grown"] = [before["scale"], grown.scale()["scale"],
                      blocks.skipped(before, grown.scale(), 7)]
    return found


def scale_settles():
    """The steps of a warm-up whose first ten overflow."""
    run = faulty(lambda step, number: overflow(step) if number <= 10 else None, scaler())
    warm = blocks.warm_up(run, Timing(4, 40, 1e9, 1, 0.1), ALONE, nothing)
    return [warm.steady, run.done]


class Watch(TorchDispatchMode):
    """Counts what makes the host wait for the device."""

    waits = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.waits += function.overloadpacket.__name__ in ("_local_scalar_dense", "equal")
        return function(*args, **(kwargs or {}))


def host_waits():
    run = training(make_step(SHAPE, Settings(optimizer="torch-fused"), "cpu", 7))
    with Watch() as inside:
        run.bare_steps(3)
    with Watch() as control:
        float(run.step(*run.data()))
    return [inside.waits, control.waits]


def pool():
    source = stream()
    both = [source() for _ in range(65)]
    tokens = torch.cat([t.flatten() for t, _ in both[:64]])
    targets = torch.cat([t.flatten() for _, t in both[:64]])
    expected = Stream(256, 3).tokens(64 * 2 * 16 + 1)
    return {"about": source.about, "digest": Stream(256, 3).digest(expected),
            "in_order": tokens.tolist() == list(expected[:-1]),
            "shifted": targets.tolist() == list(expected[1:]),
            "in_turn": torch.equal(both[0][0], both[64][0]),
            "different": len({tuple(t.flatten().tolist()) for t, _ in both}),
            "waited": source.waited}


def shared_out():
    """Whether two ranks together get the rows of one process with the doubled batch."""
    whole, parts = stream(batch=4), [stream(Ranks(CPU, rank, 2)) for rank in (0, 1)]
    return [all(torch.equal(one, torch.cat(halves)) for one, *halves in
                zip(whole(), *(part() for part in parts), strict=True)) for _ in range(3)]


TEXT = bytes(n * 7 % 251 for n in range(16 * 20 + 9))  # 20 sequences, and a rest


def loader():
    """A file's sequences in two epochs of five batches, from the real loader."""
    path = FOLDER / "text"
    path.write_bytes(TEXT)
    task = {"kind": "text", "path": str(path), "sha256": "made up"}
    source = data.source(task, SHAPE, 4, ALONE)
    batches = [source() for _ in range(10)]
    rows = [bytes([*tokens.tolist(), targets[-1].item()])
            for batch in batches for tokens, targets in zip(*batch, strict=True)]
    expected = sorted(TEXT[16 * n:16 * n + 17] for n in range(20))
    ranks = [data.source(task, SHAPE, 4, Ranks(CPU, rank, 2)) for rank in (0, 1)]
    of_two = [torch.cat([rank()[0] for rank in ranks]) for _ in range(2)]
    return {"about": source.about, "waited": source.waited,
            "epochs": [sorted(rows[:20]) == expected, sorted(rows[20:]) == expected],
            "order": rows[:20] != rows[20:], "types": [str(t.dtype) for t in batches[0]],
            "two_ranks": sorted(torch.cat(of_two).tolist()) == sorted(
                torch.cat([batch[0] for batch in batches[:4]]).tolist())}


def slow_loader():
    """Seconds a step that a training with a slow disk waits, as the blocks report them."""

    class Slow(data.Windows):
        def __getitem__(self, index):
            time.sleep(0.02)
            return super().__getitem__(index)

    plain, data.Windows = data.Windows, Slow
    source = data.Text({"path": str(FOLDER / "text"), "sha256": ""}, 16, 2, ALONE)
    data.Windows = plain
    run = Training(make_step(SHAPE, Settings(), "cpu", 7), source, CPU)
    run.run(10)  # what was read ahead
    return blocks.measure(run, Timing(2, 2, 1, 3, 0.12), 0.04, ALONE, nothing).waited


def memories():
    run = training()
    before = run.done
    peaks = memory.peaks(run.run, CPU, memory.retries(CPU))
    return {"peaks": peaks, "optimizer": memory.optimizer_peak(run.step, run.data, CPU),
            "steps": run.done - before,
            "most": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def no_memory():
    try:
        torch.empty(2**55)
    except RuntimeError as error:
        return ending(error, 4)


def wrapped_by_dynamo():
    """An error inside a compiler that torch wraps in its own."""
    def backend(graph, inputs):
        raise KeyError("first line\nsecond line")

    try:
        torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
    except Exception as error:
        return ending(error, 0)


def recompiles():
    heard = []
    for limit in (8, 1):
        listener = timing.Compiler()
        torch._dynamo.reset()
        torch._dynamo.config.cache_size_limit = limit
        function = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
        for size in (2, 3, 4):
            function(torch.ones(size))
        heard.append(raised(listener.check))
    return heard


def graph_on_two():
    settings = Settings(optimizer="torch-fused", graph=True)
    try:
        join("cuda", 2, settings)
    except Exception as error:
        return ending(error, None)


CASES = (measured, warming, block_length, not_a_number, skips, scale_settles, host_waits, pool,
         shared_out, loader, slow_loader, memories, no_memory, wrapped_by_dynamo, recompiles,
         graph_on_two)
print(json.dumps({case.__name__: case() for case in CASES}))
