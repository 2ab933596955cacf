"""The options of bench's commands, each defined once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

DEVICES = ("cuda", "cpu")
MOST_ROUNDS = 1000  # days of a GPU; the default is 5


def _number(_: click.Context, __: click.Parameter, value: float) -> float:
    """NaN is in every range, for no comparison with it holds."""
    if math.isnan(value):
        raise click.BadParameter("nan is no number of percent.")
    return value


def given(ctx: click.Context) -> dict[str, Any]:
    """The options that stand on the command line, and no default."""
    return {name: value for name, value in ctx.params.items()
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}


ladder = click.option(
    "--ladder", metavar="NAME", help="What to compare: classic (the default), incremental, modern "
                                     "or all.")
scenarios = click.option(
    "--scenarios", metavar="A,B", help="Scenarios by name, in place of a ladder; the baseline is "
                                       "added.")
preset = click.option(
    "--preset", metavar="NAME|FILE",
    help="The model and its batch: tiny, gpt-small (the default), gpt-medium, llama-small, cpu "
         "(the default there), or a TOML file.")
rounds = click.option(
    "--rounds", type=click.IntRange(max=MOST_ROUNDS), metavar="N",
    help="How often each scenario is measured: 5, or 3 with --quick.")
quick = click.option(
    "--quick", is_flag=True, help="Fewer rounds and shorter ones: minutes, and wider intervals.")
device = click.option(
    "--device", type=click.Choice(DEVICES), help="Where to train; a GPU by default. A CPU "
    "has no Apex, FP16 or TF32.")
gpus = click.option(
    "--gpus", type=click.IntRange(1, 1024), default=1, metavar="N",
    help="Train on N GPUs, data in parallel, and on one for comparison.")
data = click.option(
    "--data", type=click.Path(path_type=Path), metavar="FILE",
    help="Train on this text in place of the built-in stream of tokens.")
profile = click.option(
    "--profile", is_flag=True, help="Write a torch profiler trace of each scenario, too.")
resume = click.option(
    "--resume", is_flag=True,
    help="Go on with a run that was interrupted: the one in --out, else the newest. What it "
         "measures is taken from its folder.")
out = click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR",
    help="The folder for the results; by default a new one in /results or results.")
seed = click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, metavar="N",
    help="Of the initial weights, the data and the order of runs.")
margin = click.option(
    "--margin", type=click.FloatRange(0, 100, min_open=True, max_open=True), default=2.0,
    callback=_number, show_default=True, metavar="PCT",
    help="A difference below this is none, in percent.")
allow_shared_gpu = click.option(
    "--allow-shared-gpu", is_flag=True, help="Measure although another program uses the GPU.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
gate = click.option("--gate", is_flag=True, help="End with 1 when something became worse.")
