"""One check from end to end: look at the files, import them if asked, judge.

The one place that knows the order of the steps; each step is a module of its own.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from apexlab.verify import load, proofs, site
from apexlab.verify.arch import Arch, parse_archs
from apexlab.verify.device import Visible, driver_version, look
from apexlab.verify.examine import Coverage, Demand, Seen, examine
from apexlab.verify.expectations import expectations
from apexlab.verify.findings import finding
from apexlab.verify.judge import Request, callable_, judge, loadable
from apexlab.verify.report import RUN, STATIC, Device, Environment, Finding, Report
from apexlab.verify.site import Subject


@dataclass(frozen=True)
class Options:
    """What is asked of a check. `own_targets` is given by the gate of a build, for a record that
    was made from this very wheel: extension → targets, for those with a list of their own."""

    level: str = STATIC
    require: tuple[str, ...] = ()
    arch: Arch | None = None
    allow_no_gpu: bool = False
    model: str | None = None
    own_targets: Mapping[str, tuple[str, ...]] | None = None
    seconds: float = load.SECONDS
    torch_seconds: float = load.TORCH_SECONDS


def check(subject: Subject, options: Options) -> Report:
    """Check `subject` as far as `options` says."""
    # A wheel's gate judges what the build was asked for; the build machine's GPU is no matter.
    visible = look() if subject.kind == "site" or options.level == RUN else Visible()
    devices = visible.devices
    wanted = expectations(subject.record, options.require)
    seen = examine(subject, wanted, _demand(subject, options, devices))
    blocked, loaded = None, None
    if options.level != STATIC and subject.torch is not None:
        blocked = _blocked(subject)
        if blocked is None:
            loaded = _load(subject, seen, options)
    called = None
    if options.level == RUN and loaded is not None and loaded.torch is None and devices:
        called = _call(subject, seen, loaded, len(devices), options.model)
    torch = subject.torch
    environment = Environment(
        subject.python.version, torch.version if torch else None, torch.cuda if torch else None,
        driver_version(), devices, called.instruments if called else ())
    return judge(subject, wanted, seen, loaded, called, environment,
                 Request(options.level, options.allow_no_gpu, blocked,
                         constrained=bool(os.environ.get("PIP_CONSTRAINT")),
                         visible=visible))


def _load(subject: Subject, seen: Iterable[Seen], options: Options) -> load.Loaded | None:
    files = [one.found for one in seen if one.found is not None and loadable(one)]
    if not files:
        return None  # importing torch for nothing takes seconds
    return load.load(subject, files, options.seconds, options.torch_seconds)


def _call(subject: Subject, seen: Iterable[Seen], loaded: load.Loaded, devices: int,
          model: str | None) -> proofs.Called:
    # Late: the other levels need neither.
    from apexlab.verify import registered, run

    files = {one.name.removeprefix("_"): one.found for one in seen
             if one.found is not None and callable_(subject, one, loaded)}
    assert subject.torch is not None  # noqa: S101 - nothing loads without it
    names = registered.read(files, subject.torch.lib)
    return proofs.called(run.run(subject, files, devices, model), names)


def _demand(subject: Subject, options: Options, devices: Iterable[Device]) -> Demand:
    record = subject.record
    if options.arch is not None:
        covered = {Coverage(options.arch, "the GPU asked about")}
    else:
        covered = {Coverage(parse_archs(one.capability)[0], one.name) for one in devices}
    return Demand(
        archs=parse_archs(";".join(record.archs)) if record and record.archs else (),
        built={entry.name: entry for entry in record.built} if record else None,
        own=options.own_targets, gate=options.own_targets is not None,
        devices=tuple(sorted(covered, key=lambda one: (one.arch, one.name))))


def _blocked(subject: Subject) -> Finding | None:
    """Why nothing of the subject can be imported here; None if it can."""
    own = site.here().version
    if subject.python.executable is None:
        return finding("other-python", where=subject.label, python=subject.python.version,
                       here=own)
    machine = platform.machine()
    if subject.platform and not subject.platform.endswith(machine):
        return finding("other-platform", where=subject.label, platform=subject.platform,
                       here=machine)
    return None
