"""`apexlab bench train`: the comparison of whole training steps."""

from __future__ import annotations

import contextlib
import importlib.util
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apexlab.bench import options
from apexlab.verify.errors import INTERRUPTED, ApexlabError, CannotError, UsageError

if TYPE_CHECKING:
    from apexlab.bench.planning.plan import Plan
    from apexlab.bench.run.store import Store


@click.command()
@options.ladder
@options.scenarios
@options.preset
@options.rounds
@options.quick
@options.device
@options.gpus
@options.data
@options.profile
@options.resume
@options.out
@options.seed
@options.margin
@options.allow_shared_gpu
@options.as_json
@click.pass_context
def train(
    ctx: click.Context, ladder: str | None, scenarios: str | None, preset: str | None,
    rounds: int | None, quick: bool, device: str | None, gpus: int, data: Path | None,
    profile: bool, resume: bool, out: Path | None, seed: int, margin: float,
    allow_shared_gpu: bool, as_json: bool,
) -> int:
    """Train a Transformer in every scenario, round by round, and report.

    Each run is a process of its own; the baseline runs twice in every round, which tells the noise.
    Ctrl-C keeps what is finished. Exit codes: 0 measured, 1 a scenario failed or its losses are
    wrong, 5 a scenario of Apex's ran other code, 4 it cannot be measured here (no GPU).
    """
    # Late, so that --help stays quick.
    from apexlab.bench.planning import plan as plans
    from apexlab.bench.planning.preset_file import find_preset
    from apexlab.bench.report.deliver import result_of
    from apexlab.bench.result.result_file import damaged
    from apexlab.bench.run import folder as folders
    from apexlab.bench.run.store import opened, read_plan
    from apexlab.verify import output

    if resume:
        where = folders.resumed(out)
        with damaged(where):
            plan = _plan_again(ctx, read_plan(where))
    else:
        place = device or "cuda"
        model = find_preset(preset or plans.PRESETS[place])
        plan = plans.make_plan(plans.Request(
            ladder, _names(scenarios), rounds, quick, place, gpus, seed, margin / 100,
            _text(data, model.shape)), model)
        where = folders.find(out, model.name)
    _require(plan.device, plan.gpus)
    for note in () if resume else plan.notes:
        output.complain(note)
    again = _again(profile, allow_shared_gpu, where)
    with opened(where) as store:
        with damaged(where):
            plan = folders.settle(plan, store, resume, rounds)
            if store.rows:  # what cannot be reported is not gone on with
                result_of(where, store.rows)
        return _measured(plan, store, profile, allow_shared_gpu, as_json, ctx.color, again)


def _names(text: str | None) -> tuple[str, ...]:
    """Of a list with commas. Raises UsageError for one without a name, which is no ladder."""
    if text is None:
        return ()
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise UsageError("--scenarios names none. Name at least one, or leave it out for a ladder.")
    return names


def _text(path: Path | None, shape: Any) -> dict[str, Any] | None:
    from apexlab.bench.model.text import check_text

    if path is None:
        return None
    return {"kind": "text", "path": str(path.resolve()), "sha256": check_text(path, shape)}


def _require(place: str, gpus: int) -> None:
    """Raises CannotError where this machine cannot train."""
    from apexlab.verify import device

    if place == "cuda":
        seen = device.look()
        count = len(seen.devices)
        if count == 0:
            raise CannotError(f"There is no GPU to measure on: {seen.why_none}. `apexlab bench "
                              "train --quick --device cpu --ladder modern` compares what PyTorch "
                              "has for a CPU; Apex needs a GPU.")
        if count < gpus:
            raise CannotError(f"--gpus {gpus} needs {gpus} GPUs, and {count} "
                              f"{'is' if count == 1 else 'are'} visible here. Ask for {count}, or "
                              "look at CUDA_VISIBLE_DEVICES.")
    if importlib.util.find_spec("torch") is None:
        raise CannotError("torch is not installed in this Python, so nothing can be trained. "
                          "Install it, or run the bench in its image.")


def _plan_again(ctx: click.Context, old: Mapping[str, Any]) -> Plan:
    """The plan of a run that is gone on with, and what is given now put in its place: what then
    differs is refused by whoever holds the two against each other."""
    from apexlab.bench.planning import plan as plans
    from apexlab.bench.planning.preset_file import find_preset

    given = options.given(ctx)
    model = find_preset(given["preset"]) if "preset" in given else plans.preset_of(old)
    asked: dict[str, Any] = {
        key: given[key] for key in ("ladder", "rounds", "quick", "device", "gpus", "seed")
        if key in given}
    if "margin" in given:
        asked["margin"] = given["margin"] / 100
    if "scenarios" in given:
        asked["scenarios"] = _names(given["scenarios"])
    text = given.get("data") or old["data"].get("path")
    return plans.make_plan(plans.request_of(old, {
        **asked, "data": _text(Path(text) if text else None, model.shape)}), model)


def _again(profile: bool, shared: bool, where: Path) -> str:
    """The command that goes on with this run: all but these two is in its folder."""
    more = [word for word, on in (("--profile", profile), ("--allow-shared-gpu", shared)) if on]
    return shlex.join(["apexlab", "bench", "train", *more, "--resume", "--out", str(where)])


def _measured(plan: Plan, store: Store, profile: bool, shared: bool, as_json: bool,
              colour: bool | None, again: str) -> int:
    """Run what is left and hand out the report of it, of a part where that is all; the exit
    code."""
    from apexlab.bench.report.deliver import deliver, report_kept
    from apexlab.bench.run import progress
    from apexlab.bench.run.apex import find_subject
    from apexlab.bench.run.station import station, terminated_as_interrupted
    from apexlab.bench.run.train import Runner
    from apexlab.verify import output

    shown = progress.progress(plan.preset.seconds / (2 if plan.quick else 1))
    traces = store.folder / "traces" if profile else None
    try:
        with (contextlib.closing(shown), terminated_as_interrupted(),
              station(plan, shown, shared) as place):
            Runner(plan, store, place, find_subject(), traces).run()
    except KeyboardInterrupt:
        output.complain(f"apexlab: interrupted. What is finished is kept; go on with\n  {again}")
        if store.has_times():
            deliver(store, as_json, colour)
        return INTERRUPTED
    except ApexlabError:
        if store.has_times():  # the reason is what matters, and a full disk takes no report
            with contextlib.suppress(ApexlabError):
                deliver(store, None, colour)
        raise
    with report_kept(store.folder):
        return deliver(store, as_json, colour)
