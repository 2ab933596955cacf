"""The verdict: from what was seen and what loaded to one report. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from apexlab.verify import errors, extensions, findings, wrappers
from apexlab.verify.device import Visible
from apexlab.verify.examine import Seen, rebuild_line, spell
from apexlab.verify.expectations import Expectations
from apexlab.verify.findings import finding
from apexlab.verify.found import PYTHON, Found
from apexlab.verify.load import Loaded, understood
from apexlab.verify.model import model_findings, model_report
from apexlab.verify.proofs import Called, Proven, judge_extension, known_fallbacks
from apexlab.verify.report import (
    ERROR,
    FALLBACK,
    INCOMPLETE,
    LOAD,
    RUN,
    STATIC,
    Environment,
    ExtensionReport,
    Finding,
    ModelReport,
    Report,
)
from apexlab.verify.site import Subject

# The web package that owns the name on PyPI; NVIDIA's is 0.1, always.
_FOREIGN_VERSION = "0.9"
# Each of these is one failure, and not one for each extension that is absent because of it.
_NOTHING_THERE = {"python-only", "apex-missing", "wrong-package"}


@dataclass(frozen=True)
class Request:
    """What was asked: the level, and whether to be content without a GPU; `blocked` says why
    nothing could be imported here; `constrained` that pip is kept from replacing torch; `visible`
    what the driver shows."""

    level: str
    allow_no_gpu: bool = False
    blocked: Finding | None = None
    constrained: bool = False
    visible: Visible = field(default_factory=Visible)


def judge(
    subject: Subject, wanted: Expectations, seen: tuple[Seen, ...], loaded: Loaded | None,
    called: Called | None, environment: Environment, request: Request,
) -> Report:
    """The whole report. `loaded` is None where nothing was imported, `called` where nothing ran."""
    judged = (_extension(subject, one, wanted, loaded, called) for one in seen)
    reports = tuple(one for one in judged if one is not None)
    causes = [*_whole(subject, wanted, seen, reports, loaded, request)]
    covered = {found.code for found in causes}
    if not covered & _NOTHING_THERE:
        causes += _grouped(reports, hidden=_explained(covered))
    if loaded is not None and loaded.torch is None:
        causes += _wrappers(subject, seen, reports, loaded)
    imported = loaded is not None and loaded.torch is None
    if request.blocked is not None:
        causes.append(request.blocked)
    if request.level == RUN and not _has_error(causes):
        causes += _above_load(environment, reports, causes, called, request)
    if called is not None:
        causes += known_fallbacks(called)
    model, said = _model(called)
    causes += said
    if subject.record is None and not covered & _NOTHING_THERE:
        causes.append(finding("no-record", basis=wanted.basis))
    ran = called is not None and bool(called.answers)
    verdict, code = verdict_of(causes, request.allow_no_gpu, proven=ran and request.level == RUN)
    return Report(
        verdict=verdict, exit_code=code, level_asked=request.level,
        level_reached=RUN if ran else LOAD if imported else STATIC,
        kind=subject.kind, subject=subject.label,
        environment=environment, record=subject.record, record_path=subject.record_path,
        findings=tuple(causes), extensions=reports, model=model)


def _model(called: Called | None) -> tuple[ModelReport | None, tuple[Finding, ...]]:
    """What there is to say about the user's own model, if there is one."""
    if called is None or called.model is None:
        return None, ()
    working = called.working.get("cuda:0", frozenset())
    found = model_findings(called.model, called.registered, working, called.model["factory"])
    told = "norms" in called.model
    return model_report(called.model, called.registered, working) if told else None, found


def verdict_of(causes: Iterable[Finding], allow_no_gpu: bool = False, proven: bool = False,
               ) -> tuple[str, int]:
    """The verdict and the exit code: problems first, then fallbacks, then what could not be
    checked. With none of them it is `proven` where the calls were made, else `ok`."""
    severities = {found.code: found.severity for found in causes}
    if ERROR in severities.values():
        return "broken", errors.PROBLEM
    if FALLBACK in severities.values():
        return "fallback", errors.FALLBACK
    unchecked = {code for code, severity in severities.items() if severity == INCOMPLETE}
    if not unchecked:
        return "proven" if proven else "ok", errors.OK
    forgiven = allow_no_gpu and unchecked == {"no-gpu"}
    return "incomplete", errors.OK if forgiven else errors.CANNOT


def _extension(subject: Subject, seen: Seen, wanted: Expectations, loaded: Loaded | None,
               called: Called | None) -> ExtensionReport | None:
    expected = seen.name in wanted
    if seen.found is None and not expected and not seen.findings:
        return None  # neither there nor asked for: nothing to say
    found = list(seen.findings)
    error = load_error(subject, seen, loaded)
    if loaded is not None and loaded.torch is None and loadable(seen):
        found = _merged(found, error)
    imported = callable_(subject, seen, loaded)
    proven = Proven((), (), False)
    if called is not None and imported:
        proven = judge_extension(seen.name.removeprefix("_"), called, rebuild_line(subject))
        # What the file already told is not said once more by the call.
        told = {findings.SAID_BY_CALL.get(one.code) for one in found}
        found += [one for one in proven.findings if one.code not in told]
    binary = seen.binary
    return ExtensionReport(
        name=seen.name, expected=expected,
        why=wanted.why.get(seen.name, wanted.why_not(seen.name)),
        status=_status(seen, expected, imported, proven.all, found),
        path=str(seen.found.path) if seen.found else None,
        sha256=binary.sha256 if binary else None,
        targets=binary.targets if binary else (), ptx=binary.ptx if binary else (),
        kernels=binary.kernels if binary else None,
        cuda_major=binary.cuda_major if binary else None,
        cxx_abi=binary.cxx_abi if binary else "unknown",
        needed=binary.needed if binary else (), findings=tuple(found),
        proofs=proven.proofs)


def loadable(seen: Seen) -> bool:
    """Whether it makes sense to import this one: a compiled file that reads as a fitting one."""
    return (seen.found is not None and seen.found.layout != PYTHON
            and not any(one.code in findings.NOT_LOADABLE for one in seen.findings))


def load_error(subject: Subject, seen: Seen, loaded: Loaded | None) -> Finding | None:
    """Why the extension could not be imported; None if it could, or if it was not tried."""
    if loaded is None or loaded.torch is not None or not loadable(seen):
        return None
    assert seen.found is not None  # noqa: S101 - loadable says so
    torch = subject.torch.version if subject.torch else "unknown"
    return understood(seen.name, loaded.answers.get(seen.found.name), seen.found,
                      {"torch": torch, "rebuild": rebuild_line(subject),
                       "tag": "another Python", "python": subject.python.version})


def callable_(subject: Subject, seen: Seen, loaded: Loaded | None) -> bool:
    """Whether its functions can be called here: it was imported, or is Python code altogether."""
    if loaded is None or loaded.torch is not None or seen.found is None:
        return False
    if seen.found.layout == PYTHON:
        return True
    return loadable(seen) and load_error(subject, seen, loaded) is None


def _merged(static: list[Finding], error: Finding | None) -> list[Finding]:
    """What was read and what happened, each cause once."""
    predicted = [one for one in static if one.code in findings.LOADER_DECIDES]
    if error is None:
        # It loaded, so whatever the reading said against that was wrong.
        return [one for one in static if one not in predicted]
    if error.code not in findings.LOADER_DECIDES or not predicted:
        return [*static, error]
    # What could not be told from the files is known now.
    return static if _has_error(predicted) else [
        *(one for one in static if one not in predicted), error]


def _status(seen: Seen, expected: bool, imported: bool, proven: bool, found: Iterable[Finding],
            ) -> str:
    if seen.found is None:
        return "absent" if expected else "not-requested"
    if _has_error(found):
        return "broken"
    if proven:
        return "proven"
    return "loaded" if imported and seen.found.layout != PYTHON else "present"


def _has_error(found: Iterable[Finding]) -> bool:
    return any(one.severity == ERROR for one in found)


def _whole(
    subject: Subject, wanted: Expectations, seen: tuple[Seen, ...],
    reports: tuple[ExtensionReport, ...], loaded: Loaded | None, request: Request,
) -> Iterator[Finding]:
    """Findings about the installation as a whole, which explain those about its parts."""
    compiled = tuple(one.found for one in seen if one.found and one.found.layout != PYTHON)
    yield from _package(subject, wanted, compiled)
    record_torch = (subject.record.torch.get("version") or "") if subject.record else ""
    hint = f" ({record_torch})" if record_torch else ""
    if subject.torch is None:
        code = "torch-missing" if subject.kind == "site" else "torch-unknown"
        yield finding(code, where=subject.label, record_torch=hint)
    elif record_torch and record_torch != subject.torch.version:
        yield _replaced(subject, subject.torch.version, record_torch, reports, request)
    if loaded is not None and loaded.torch is not None:
        yield loaded.torch


def _wrappers(subject: Subject, seen: Iterable[Seen], reports: tuple[ExtensionReport, ...],
              loaded: Loaded) -> list[Finding]:
    """What Apex's own Python modules show beyond the extensions."""
    if subject.package is None:
        return []
    status = {one.name.removeprefix("_"): one.status for one in reports}
    state = wrappers.State(
        sound=frozenset(name for name, one in status.items() if one in ("loaded", "proven")),
        broken=frozenset(name for name, one in status.items() if one in ("broken", "absent")),
        violent=frozenset(one.name for one in reports
                          if {found.code for found in one.findings} & findings.VIOLENT),
        known=frozenset(extensions.KNOWN_NAMES) | frozenset(status),
        texts=frozenset(str(one["text"]) for one in loaded.answers.values() if "text" in one))
    files = {one.found.name: one.found for one in seen if one.found is not None}
    torch = subject.torch.version if subject.torch else "unknown"
    return wrappers.judged(loaded.wrappers, files, subject.package, state,
                           {"torch": torch, "rebuild": rebuild_line(subject)})


def _package(subject: Subject, wanted: Expectations, compiled: tuple[Found, ...],
             ) -> Iterator[Finding]:
    """What belongs to the package apex itself: without it, or with another one, sound extensions
    are of no use."""
    package = subject.package
    foreign = [one for one in subject.versions if one.startswith(_FOREIGN_VERSION)]
    if foreign:
        # Beside extensions too: both have a package apex, and one overwrote the other's files.
        yield finding("wrong-package", version=foreign[0])
    elif not compiled:
        if package is None:
            yield finding("apex-missing", where=subject.label)
        elif wanted.why:
            yield finding("python-only", count=len(wanted.why), rebuild=rebuild_line(subject))
    elif package is None:
        yield finding("package-missing", rebuild=rebuild_line(subject))
    elif strays := [one for one in compiled if package.parent not in one.path.parents]:
        yield finding("package-shadowed", package=package, folder=strays[0].path.parent)
    elif lost := list(wrappers.lost(subject.lost)):
        more = f" The same holds for {', '.join(name for name, _ in lost[1:])}." if lost[1:] else ""
        yield finding("module-lost", wrapper=lost[0][0], file=lost[0][1], more=more,
                      rebuild=rebuild_line(subject))
    if subject.hidden:
        yield finding("installed-elsewhere", package=package,
                      others=spell(map(str, subject.hidden)))
    if subject.source_tree is not None:
        yield finding("source-tree", folder=subject.source_tree)
    if len(subject.versions) > 1:
        yield finding("installed-twice", count=len(subject.versions),
                      versions=spell(subject.versions))
    if subject.clone is not None:
        yield finding("clone-here", package=subject.clone)


def _replaced(subject: Subject, torch: str, built_for: str,
              reports: Iterable[ExtensionReport], request: Request) -> Finding:
    needs = next((one.message for report in reports for one in report.findings
                  if one.code in ("torch-abi-mismatch", "cxx-abi-mismatch")), "")
    symbol = " " + re.sub(r" was built for .*?: it needs ", " needs ", needs) if needs else ""
    # A wheel is not installed yet, so nobody replaced anything: it belongs to another torch.
    code = "torch-replaced" if subject.kind == "site" else "torch-differs"
    # What protects torch in an image would refuse the way back, too.
    lift = "PIP_CONSTRAINT= " if request.constrained else ""
    return finding(code, torch=torch, built_for=built_for, symbol=symbol,
                   install=lift + install_line(built_for), rebuild=rebuild_line(subject))


def install_line(version: str) -> str:
    """How to get this very torch: PyTorch's index for a version with a CUDA or CPU variant."""
    local = version.partition("+")[2]
    local = local if re.fullmatch(r"cpu|cu\d+", local) else ""
    index = f" --index-url https://download.pytorch.org/whl/{local}" if local else ""
    return f"pip install torch=={version}{index}"


def _explained(covered: set[str]) -> set[str]:
    """Codes of extensions that a finding about the whole already explains."""
    if covered & {"torch-replaced", "torch-differs"}:
        return {"torch-abi-mismatch", "cxx-abi-mismatch", "cuda-major-mismatch", "cudart-missing",
                "torch-cpu-only"}
    return set()


def _grouped(reports: Iterable[ExtensionReport], hidden: set[str]) -> list[Finding]:
    """Each cause once, with all extensions that it concerns. The first speaks for the others."""
    groups: dict[str, list[Finding]] = {}
    for report in reports:
        for one in report.findings:
            if one.code not in hidden:
                groups.setdefault(one.code, []).append(one)
    return [_group(group) for group in groups.values()]


def _group(group: list[Finding]) -> Finding:
    names = tuple(dict.fromkeys(name for one in group for name in one.extensions))
    rest = names[1:]
    more = "" if not rest else f" The same holds for {', '.join(rest)}."
    return replace(group[0], message=group[0].message + more, extensions=names)


def _above_load(environment: Environment, reports: Iterable[ExtensionReport],
                causes: Iterable[Finding], called: Called | None, request: Request,
                ) -> Iterator[Finding]:
    """What stands between the level `load` and a proof."""
    unchecked = any(one.severity == INCOMPLETE for one in causes)
    if request.visible.fails:
        yield finding("gpu-unusable", device="any GPU", error=request.visible.why_none)
    elif not environment.devices:
        yield finding("no-gpu", why=request.visible.why_none,
                      so_far="not fully checked (see above)" if unchecked else "ok")
    elif called is not None:
        for device, error in called.failed.items():
            yield finding("gpu-unusable", device=device, error=error)
        left = [one.name for one in reports if one.expected and one.status != "proven"]
        if left and not called.failed and not any(
                one.severity in (FALLBACK, INCOMPLETE) for one in causes):
            yield finding("not-proven", names=spell(left))
