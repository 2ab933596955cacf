"""Prints what the harness costs inside the timed region, as a share of an iteration.

    python bench/benchmarks/harness_cost.py [SCENARIO [PRESET]]

It runs on the GPU that torch sees, else on the CPU. The block loop of the benchmark, which draws
batches, keeps losses and records events, is held against a bare loop of the same steps in the same
process, in turn; the goal is below 0.5 %. On a busy machine that difference drowns in noise, so
the cost is also taken alone, with a step that does nothing: this is the figure to judge by, and
the interval of the other one has to hold it.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from apexlab.bench.measure import blocks
from apexlab.bench.measure.data import Pool
from apexlab.bench.measure.ranks import Ranks
from apexlab.bench.model.step import make_step
from apexlab.bench.planning.preset_file import find_preset
from apexlab.bench.planning.scenario import scenarios

GOAL = 0.005
PAIRS = 100
SECONDS = 0.1  # of a block: short, so that most pairs are not disturbed
EMPTY_STEPS = 2000


def bare(training: blocks.Training, count: int) -> float:
    """Seconds of a plain loop over one batch."""
    step, (tokens, targets) = training.step, training.data()
    training.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        step(tokens, targets)
    training.synchronize()
    return time.perf_counter() - start


def in_turn(training: blocks.Training, count: int, pairs: int) -> list[tuple[float, float]]:
    """(harness, bare) seconds for each pair; each of the two goes first in every second pair."""
    events = blocks.make_events(training.device, count)
    loops: dict[str, Callable[[], float]] = {
        "harness": lambda: training.run(count, events), "bare": lambda: bare(training, count)}
    found = []
    for number in range(pairs):
        names = list(loops)[::-1 if number % 2 else 1]
        took = {name: loops[name]() for name in names}
        found.append((took["harness"], took["bare"]))
    return found


def empty(device: torch.device, data: Any) -> blocks.Training:
    loss = torch.zeros((), device=device)
    return blocks.Training(lambda *_: loss, data, device)


def middle(ratios: list[float]) -> tuple[float, float, float]:
    """The median, and the order statistics between which it is in 95 of 100 cases."""
    ordered, count = sorted(ratios), len(ratios)
    reach = math.ceil(0.98 * math.sqrt(count))
    return statistics.median(ordered), ordered[count // 2 - reach], ordered[count // 2 + reach]


def main(scenario: str = "torch-fused-amp-bf16", preset_name: str = "") -> None:
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", 0) if cuda else torch.device("cpu")
    preset = find_preset(preset_name or ("gpt-small" if cuda else "cpu"))
    data = Pool(0, preset.shape, preset.batch, Ranks(device))
    step = make_step(preset.shape, scenarios()[scenario].settings, str(device), 0)
    training = blocks.Training(step, data, device)
    training.run(10)
    count = max(1, math.ceil(SECONDS / (training.run(5) / 5)))

    alone = statistics.median(ours - theirs for ours, theirs in in_turn(
        empty(device, data), EMPTY_STEPS, PAIRS)) / EMPTY_STEPS
    pairs = in_turn(training, count, PAIRS)
    beside, low, high = middle([ours / theirs - 1 for ours, theirs in pairs])
    seconds = statistics.median(theirs for _, theirs in pairs) / count

    name = torch.cuda.get_device_name(device) if cuda else "a CPU"
    print(f"{scenario}, {preset.name}, on {name}: an iteration takes {seconds * 1e3:.2f} ms")
    print(f"the harness alone, around a step that does nothing: {alone * 1e6:.2f} us an iteration, "
          f"{alone / seconds:.4%} of this one")
    print(f"against a bare loop, {PAIRS} pairs of blocks of {count} steps in turn: "
          f"{beside:+.3%}, 95 % between {low:+.3%} and {high:+.3%}")
    print(f"goal, below {GOAL:.1%}: {'met' if alone / seconds < GOAL else 'MISSED'}")


if __name__ == "__main__":
    main(*sys.argv[1:])
