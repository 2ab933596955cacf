"""`apexlab bench report`: the report of a run again, from what its folder holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from apexlab.bench import options
from apexlab.verify.errors import OK, UsageError

OPS = "ops"  # the folder that the results of `bench ops` may have inside that of a training run

tensorboard = click.option(
    "--tensorboard", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="Write the figures as TensorBoard events, too.")
wandb = click.option(
    "--wandb", metavar="PROJECT", help="Send the figures to this Weights & Biases project, too.")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")
@tensorboard
@wandb
@options.as_json
@click.pass_context
def report(ctx: click.Context, folder: Path, tensorboard: Path | None, wandb: str | None,
           as_json: bool) -> int:
    """Write the report of a finished run again.

    From the samples of the run, or from its result where that is all there is. Exit codes: 0
    written, 2 there is no run, 4 it cannot be written.
    """
    # Late, so that --help stays quick.
    from apexlab.bench.report.terminal import summary
    from apexlab.bench.report.write import PAGE, write_report
    from apexlab.bench.result.result_file import damaged
    from apexlab.verify import output

    found, shown = {}, []
    for place in _places(folder):
        with damaged(place):
            found[place] = result_of(place)
            shown.append(summary(found[place], ctx.color, place / PAGE))
            write_report(place, found[place])
    results = list(found.values())
    if tensorboard is not None or wandb is not None:
        _export(results, tensorboard, wandb)
    if as_json:
        # One document: that of the training run where there are two, for `ops` has its own file.
        output.write(json.dumps(results[0], indent=1) + "\n")
        return OK
    for text in shown:
        output.write(text)
    return OK


def result_of(folder: Path) -> dict[str, Any]:
    """The result of a folder, made again from its samples where they are there. Raises
    UsageError."""
    from apexlab.bench.ops import result as of_ops
    from apexlab.bench.report import deliver
    from apexlab.bench.result.result_file import RESULT, read_result
    from apexlab.bench.run.store import read_rows

    rows = read_rows(folder)
    kinds = {row.get("row") for row in rows}
    if {"request", "subject", "point"} <= kinds:
        return of_ops.make_result(rows)
    if {"subject", "run"} <= kinds:
        return deliver.result_of(folder, rows)
    if (folder / RESULT).is_file():
        return read_result(folder)
    why = "it was stopped before anything was timed" if rows else "there is none"
    raise UsageError(f"{folder} holds no run to report: {why}. Name the folder that "
                     "`apexlab bench train` or `apexlab bench ops` wrote.")


def _places(folder: Path) -> list[Path]:
    """The folder, that of the operations inside it, or both. Raises UsageError."""
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}. Name the one that `apexlab bench train` "
                         "wrote.")
    inside = [folder / OPS] if (folder / OPS).is_dir() else []
    alone = not any((folder / name).exists() for name in ("runs.jsonl", "result.json"))
    return inside if inside and alone else [folder, *inside]


def _export(results: list[dict[str, Any]], tensorboard: Path | None, wandb: str | None) -> None:
    from apexlab.bench.report import exports  # late: it is seldom asked for

    for result in results:
        if tensorboard is not None:
            exports.to_tensorboard(result, tensorboard)
        if wandb is not None:
            exports.to_wandb(result, wandb)
