"""The verdict: from what was seen and what loaded to one report. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from apexlab.verify import errors, findings
from apexlab.verify.examine import Seen, rebuild_line, spell
from apexlab.verify.expectations import Expectations
from apexlab.verify.findings import finding
from apexlab.verify.load import Loaded, understood
from apexlab.verify.report import (
    ERROR,
    INCOMPLETE,
    LOAD,
    RUN,
    STATIC,
    Environment,
    ExtensionReport,
    Finding,
    Report,
)
from apexlab.verify.site import PYTHON, Found, Subject

# The web package that owns the name on PyPI; NVIDIA's is 0.1, always.
_FOREIGN_VERSION = "0.9"
# Each of these is one failure, and not one for each extension that is absent because of it.
_NOTHING_THERE = {"python-only", "apex-missing", "wrong-package"}


@dataclass(frozen=True)
class Request:
    """What was asked: the level, and whether to be content without a GPU; `blocked` says why
    nothing could be imported here; `constrained` that pip is kept from replacing torch."""

    level: str
    allow_no_gpu: bool = False
    blocked: Finding | None = None
    constrained: bool = False


def judge(
    subject: Subject, wanted: Expectations, seen: tuple[Seen, ...], loaded: Loaded | None,
    environment: Environment, request: Request,
) -> Report:
    """The whole report. `loaded` is None where nothing was imported."""
    judged = (_extension(subject, one, wanted, loaded) for one in seen)
    reports = tuple(one for one in judged if one is not None)
    causes = [*_whole(subject, wanted, seen, reports, loaded, request)]
    covered = {found.code for found in causes}
    if not covered & _NOTHING_THERE:
        causes += _grouped(reports, hidden=_explained(covered))
    imported = loaded is not None and loaded.torch is None
    if request.blocked is not None:
        causes.append(request.blocked)
    if request.level == RUN and not _has_error(causes):
        causes.append(_above_load(environment, causes))
    if subject.record is None and not covered & _NOTHING_THERE:
        causes.append(finding("no-record", basis=wanted.basis))
    verdict, code = verdict_of(causes, request.allow_no_gpu)
    return Report(
        verdict=verdict, exit_code=code, level_asked=request.level,
        level_reached=LOAD if imported else STATIC, kind=subject.kind, subject=subject.label,
        environment=environment, record=subject.record, record_path=subject.record_path,
        findings=tuple(causes), extensions=reports)


def verdict_of(causes: Iterable[Finding], allow_no_gpu: bool = False) -> tuple[str, int]:
    """The verdict and the exit code: problems first, then what could not be checked."""
    severities = {found.code: found.severity for found in causes}
    if ERROR in severities.values():
        return "broken", errors.PROBLEM
    unchecked = {code for code, severity in severities.items() if severity == INCOMPLETE}
    if not unchecked:
        return "ok", errors.OK
    forgiven = allow_no_gpu and unchecked == {"no-gpu"}
    return "incomplete", errors.OK if forgiven else errors.CANNOT


def _extension(subject: Subject, seen: Seen, wanted: Expectations, loaded: Loaded | None,
               ) -> ExtensionReport | None:
    expected = seen.name in wanted
    if seen.found is None and not expected and not seen.findings:
        return None  # neither there nor asked for: nothing to say
    found = list(seen.findings)
    imported = False
    if loaded is not None and loaded.torch is None and loadable(seen):
        assert seen.found is not None  # noqa: S101 - loadable says so
        torch = subject.torch.version if subject.torch else "unknown"
        error = understood(seen.name, loaded.answers.get(seen.found.name), seen.found,
                           {"torch": torch, "rebuild": rebuild_line(subject),
                            "tag": "another Python", "python": subject.python.version})
        imported = error is None
        found = _merged(found, error)
    binary = seen.binary
    return ExtensionReport(
        name=seen.name, expected=expected,
        why=wanted.why.get(seen.name, wanted.why_not(seen.name)),
        status=_status(seen, expected, imported, found),
        path=str(seen.found.path) if seen.found else None,
        sha256=binary.sha256 if binary else None,
        targets=binary.targets if binary else (), ptx=binary.ptx if binary else (),
        kernels=binary.kernels if binary else None,
        cuda_major=binary.cuda_major if binary else None,
        cxx_abi=binary.cxx_abi if binary else "unknown",
        needed=binary.needed if binary else (), findings=tuple(found))


def loadable(seen: Seen) -> bool:
    """Whether it makes sense to import this one: a compiled file that reads as a fitting one."""
    return (seen.found is not None and seen.found.layout != PYTHON
            and not any(one.code in findings.NOT_LOADABLE for one in seen.findings))


def _merged(static: list[Finding], error: Finding | None) -> list[Finding]:
    """What was read and what happened, each cause once."""
    predicted = [one for one in static if one.code in findings.LOADER_DECIDES]
    if error is None:
        # It loaded, so whatever the reading said against that was wrong.
        return [one for one in static if one not in predicted]
    same_cause = bool(predicted) and error.code in findings.LOADER_DECIDES
    return static if same_cause else [*static, error]


def _status(seen: Seen, expected: bool, imported: bool, found: Iterable[Finding]) -> str:
    if seen.found is None:
        return "absent" if expected else "not-requested"
    if _has_error(found):
        return "broken"
    return "loaded" if imported else "present"


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


def _package(subject: Subject, wanted: Expectations, compiled: tuple[Found, ...],
             ) -> Iterator[Finding]:
    """What belongs to the package apex itself: without it, or with another one, sound extensions
    are of no use."""
    package = subject.package
    if not compiled:
        if subject.versions and subject.versions[0].startswith(_FOREIGN_VERSION):
            yield finding("wrong-package", version=subject.versions[0])
        elif package is None:
            yield finding("apex-missing", where=subject.label)
        elif wanted.why:
            yield finding("python-only", count=len(wanted.why), rebuild=rebuild_line(subject))
    elif package is None:
        yield finding("package-missing", rebuild=rebuild_line(subject))
    elif strays := [one for one in compiled if package.parent not in one.path.parents]:
        yield finding("package-shadowed", package=package, folder=strays[0].path.parent)
    if len(subject.versions) > 1:
        yield finding("installed-twice", count=len(subject.versions),
                      versions=spell(subject.versions))
    if subject.clone is not None:
        yield finding("clone-here", package=subject.clone)


def _replaced(subject: Subject, torch: str, built_for: str,
              reports: Iterable[ExtensionReport], request: Request) -> Finding:
    needs = next((one.message for report in reports for one in report.findings
                  if one.code == "torch-abi-mismatch"), "")
    symbol = " " + needs.replace(" was built for another torch: it", "") if needs else ""
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
        return {"torch-abi-mismatch", "cuda-major-mismatch", "cudart-missing", "torch-cpu-only"}
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


def _above_load(environment: Environment, causes: Iterable[Finding]) -> Finding:
    unchecked = any(one.severity == INCOMPLETE for one in causes)
    return finding("run-unproven" if environment.devices else "no-gpu",
                   so_far="not fully checked (see above)" if unchecked else "ok")
