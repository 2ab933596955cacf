"""`apexlab bench ops`: single operations, timed one by one."""

from __future__ import annotations

import contextlib
import importlib.util
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apexlab.bench import options
from apexlab.verify.errors import INTERRUPTED, ApexlabError, CannotError, UsageError, worst

if TYPE_CHECKING:
    from apexlab.bench.ops.request import Request
    from apexlab.bench.run.store import Store

OPS = ("adam", "layernorm", "rmsnorm", "clip")
ROUNDS = 3
# By device and --quick, what the process of one operation aims to take, for the progress.
SECONDS = {("cuda", False): 17, ("cuda", True): 5, ("cpu", False): 30, ("cpu", True): 2}

op = click.option(
    "--op", "chosen", type=click.Choice(OPS), multiple=True,
    help="Measure this operation alone; may be given several times.")
quick = click.option(
    "--quick", is_flag=True, help="Fewer sizes, and less that is compiled: half a minute.")
device = click.option(
    "--device", type=click.Choice(options.DEVICES), help="Where to measure; a GPU by default. A "
                                                         "CPU has times of whole calls alone.")
preset = click.option(
    "--preset", metavar="NAME|FILE",
    help="The model whose parameters Adam and clipping are given: gpt-small (the default), cpu "
         "(the default there), another shipped one, or a TOML file.")


@click.command()
@op
@quick
@device
@preset
@options.resume
@options.out
@options.seed
@options.allow_shared_gpu
@options.as_json
@click.pass_context
def ops(ctx: click.Context, chosen: tuple[str, ...], quick: bool, device: str | None,
        preset: str | None, resume: bool, out: Path | None, seed: int,
        allow_shared_gpu: bool, as_json: bool) -> int:
    """Measure single operators: Adam, LayerNorm, RMSNorm, clipping.

    Kernel time with a cold and a hot cache, host time and the time of a whole call, each apart,
    against the fewest bytes that the operation has to move. Ctrl-C keeps what is
    finished, and --resume goes on. Exit codes: 0 measured, 1 something failed or gave wrong
    numbers, 5 a call of Apex's ran other code, 4 it cannot be measured here (no GPU).
    """
    # Late, so that --help stays quick.
    from apexlab.bench.ops.request import Request, is_ops
    from apexlab.bench.planning import plan as plans
    from apexlab.bench.planning.preset_file import find_preset
    from apexlab.bench.run import folder
    from apexlab.bench.run.store import opened

    if resume:
        where = folder.resumed(out, is_ops)
        request = _request_again(where, options.given(ctx))
    else:
        place = device or "cuda"
        model = find_preset(preset or plans.PRESETS[place])
        request = Request(_wanted(chosen), model, place, quick, ROUNDS, seed)
        where = folder.find(out, f"ops-{model.name}", is_ops)
    _require(request.device)
    with opened(where) as store:
        return _measured(request, store, allow_shared_gpu, as_json, ctx.color)


def _wanted(chosen: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(each for each in OPS if not chosen or each in chosen)


def _request_again(where: Path, given: Mapping[str, Any]) -> Request:
    """What the run in a folder was begun with. Raises UsageError where something else is asked for
    now."""
    from apexlab.bench.ops.request import differences, request_of
    from apexlab.bench.planning.preset_file import find_preset
    from apexlab.bench.result.result_file import damaged
    from apexlab.bench.run.store import read_rows

    with damaged(where):
        old = request_of(read_rows(where)[0])
    asked = {key: given[key] for key in ("device", "quick", "seed") if key in given}
    if "chosen" in given:
        asked["ops"] = _wanted(given["chosen"])
    if "preset" in given:
        asked["preset"] = find_preset(given["preset"])
    if differ := differences(old, replace(old, **asked)):
        raise UsageError(f"The run in {where} measures something else than was asked for now: its "
                         f"{', '.join(differ)} {'differs' if len(differ) == 1 else 'differ'}. "
                         "Leave the options out, for --resume takes them from the run, or leave "
                         "--resume out to begin another.")
    return old


def _require(place: str) -> None:
    """Raises CannotError where this machine cannot measure."""
    from apexlab.verify import device

    if place == "cuda" and not (seen := device.look()).devices:
        raise CannotError(f"There is no GPU to measure on: {seen.why_none}. `apexlab bench ops "
                          "--quick --device cpu` measures what PyTorch has for a CPU; Apex needs "
                          "a GPU.")
    if importlib.util.find_spec("torch") is None:
        raise CannotError("torch is not installed in this Python, so nothing can be measured. "
                          "Install it, or run the bench in its image.")


def _measured(request: Request, store: Store, shared: bool, as_json: bool, colour: bool | None,
              ) -> int:
    """Run it and hand out the report, of a part where that is all; the exit code."""
    from apexlab.bench.ops.run import run
    from apexlab.bench.report.deliver import report_kept
    from apexlab.verify import output

    try:
        run(request, store, shared, SECONDS[request.device, request.quick])
    except KeyboardInterrupt:
        output.complain("apexlab: interrupted. What is finished is kept; go on with\n  "
                        + shlex.join(["apexlab", "bench", "ops", *["--allow-shared-gpu"] * shared,
                                      "--resume", "--out", str(store.folder)]))
        if _has_points(store):
            _deliver(store, as_json, colour)
        return INTERRUPTED
    except ApexlabError:
        if _has_points(store):  # the reason is what matters, and a full disk takes no report
            with contextlib.suppress(ApexlabError):
                _deliver(store, None, colour)
        raise
    with report_kept(store.folder):
        return _deliver(store, as_json, colour)


def _has_points(store: Store) -> bool:
    return any(row["row"] == "point" for row in store.rows)


def _deliver(store: Store, as_json: bool | None, colour: bool | None) -> int:
    """Write the result and its reports, and print them (not where `as_json` is None); the exit
    code."""
    from apexlab.bench.ops.result import exit_codes, make_result
    from apexlab.bench.report.deliver import hand_out

    result = make_result(store.rows)
    hand_out(result, store.folder, as_json, colour)
    return worst(exit_codes(result))
