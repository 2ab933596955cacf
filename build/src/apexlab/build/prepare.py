"""The first step of the compile driver: read everything, change nothing, say what is in the way."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apexlab.build import jobs as jobs_
from apexlab.build import limits
from apexlab.build import matrix as matrix_
from apexlab.build import source as source_
from apexlab.build import toolkit as toolkit_
from apexlab.build.errors import PreflightError
from apexlab.build.preflight import Finding, Host, judge
from apexlab.build.probe import TorchFacts, probe
from apexlab.build.request import Request, cxx_std_override, hard_coded_std, make_request
from apexlab.build.rows import Matrix
from apexlab.build.rows import minor as minor_of
from apexlab.verify.arch import Arch, format_archs, parse_archs
from apexlab.verify.errors import UsageError

# Where build scripts set compiler flags; kernels and headers do not.
_SCRIPTS = ("setup.py", "apex/contrib/*/setup.py")


@dataclass(frozen=True)
class Ask:
    """What a person asked for; None where a choice was left to us. `memory` is in bytes."""

    source: Path
    out: Path
    ref: str | None = None
    url: str | None = None
    archs: tuple[Arch, ...] | None = None
    profile: str = "core"
    jobs: int | None = None
    memory: int | None = None
    images: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Prepared:
    """A build that can start, unless `findings` holds one that is not a warning."""

    ask: Ask
    source: source_.Source
    request: Request
    host: Host
    limit: limits.Limit
    std: str | None
    findings: tuple[Finding, ...]


def prepare(ask: Ask) -> Prepared:
    """Read source, torch, toolkit and limits. Raises SourceError or UsageError for a bad request;
    what this machine lacks is in `findings`."""
    source = source_.inspect(ask.source, ask.ref)
    scratch = Path(tempfile.gettempdir())
    _keep_out(ask.source, {"--out": ask.out, "TMPDIR": scratch})
    matrix = matrix_.load()
    asked = ask.archs or tuple(parse_archs(" ".join(_all_archs(matrix))))
    torch = probe(asked)
    archs = ask.archs or default_archs(matrix, torch)
    environ = os.environ
    toolkit = toolkit_.find(environ, torch.folder, torch.cuda)
    limit = limits.memory_limit(ask.memory)
    jobs = jobs_.choose(limits.cores(), limit.bytes, len(archs), ask.jobs)
    cuda = torch.cuda or (toolkit.minor if toolkit else "0.0")
    request = make_request(matrix, source, source.commit or ask.ref, cuda, ask.profile, archs)
    wheel, row = matrix.wheel(torch.release, cuda), matrix.toolkit(cuda)
    host = Host(
        torch=torch, toolkit=toolkit, compiler=toolkit_.read_compiler(environ),
        cc=toolkit_.read_compiler(environ, "CC"), environ=dict(environ),
        gcc_max=row.gcc_max if row else None, gcc_min=wheel.gcc_min if wheel else None,
        disk_free=shutil.disk_usage(scratch).free, scratch=str(scratch),
        noexec=bool(os.statvfs(scratch).f_flag & os.ST_NOEXEC),
        jobs=jobs, needs_profiler_header=_mentions(ask.source, toolkit_.PROFILER_HEADER),
    )  # fmt: skip
    texts = [path.read_text(errors="replace")
             for pattern in _SCRIPTS for path in sorted(ask.source.glob(pattern))]  # fmt: skip
    wanted = wheel.cxx_std if wheel else torch.cxx_std
    std = cxx_std_override(wanted, torch.cxx_std, hard_coded_std(texts))
    return Prepared(ask, source, request, host, limit, std, tuple(judge(host, request)))


def refuse(prepared: Prepared) -> None:
    """Raise one error with all that is in the way, if anything is."""
    stops = [finding for finding in prepared.findings if not finding.warning]
    if not stops:
        return
    things = "One thing is" if len(stops) == 1 else f"{len(stops)} things are"
    text = "\n".join(f"- {finding.message}" for finding in stops)
    kind = UsageError if all(finding.usage for finding in stops) else PreflightError
    raise kind(f"Nothing was compiled: {things} in the way.\n{text}")


def default_archs(matrix: Matrix, torch: TorchFacts) -> tuple[Arch, ...]:
    """The architectures of the cell for this torch, else all that torch's own wheel holds."""
    minor, cuda = minor_of(torch.release or "0"), torch.cuda or ""
    for cell in matrix.cells:
        if (minor_of(cell.torch), cell.cuda) == (minor, cuda):
            return cell.archs
    if wheel := matrix.wheel(torch.release, cuda):
        return wheel.archs
    if not cuda:
        return ()
    raise UsageError(
        f"The matrix has no row for torch {torch.version}, so there is no default for the "
        "architectures. Give them with --archs, such as 9.0.")


def _all_archs(matrix: Matrix) -> list[str]:
    """Every architecture that could become the default: the probe asks torch about all at once."""
    rows = [*(cell.archs for cell in matrix.cells), *(wheel.archs for wheel in matrix.wheels)]
    return sorted({str(dataclasses.replace(arch, ptx=False)) for archs in rows for arch in archs})


def _mentions(root: Path, text: str) -> bool:
    """Whether a source file of the tree's csrc includes `text`."""
    endings = {".cu", ".cuh", ".h", ".cpp"}
    return any(text in path.read_text(errors="replace")
               for path in source_.files(root / "csrc") if path.suffix in endings)  # fmt: skip


def _keep_out(source: Path, places: dict[str, Path]) -> None:
    """Refuse to write into the source: what is put there would be source of the next build."""
    for name, place in places.items():
        if place.resolve().is_relative_to(source.resolve()):
            raise UsageError(f"{name} is {place}, which lies inside of {source}; a source is never "
                             "written to. Give a folder outside of it.")


def describe(prepared: Prepared) -> list[str]:
    """The lines that say what is about to be built, from what and with how many jobs."""
    host, request, source = prepared.host, prepared.request, prepared.source
    jobs = host.jobs
    who = "Apex" if source.name == "apex" else source.name
    dirty = ", with uncommitted changes" if source.dirty else ""
    kind = "commit" if source.commit else "tree"
    gib = limits.GIB
    nvcc = f"nvcc {host.toolkit.version} in {host.toolkit.home}" if host.toolkit else "no nvcc"
    gcc = f"{host.compiler.name} {host.compiler.version}" if host.compiler else "no compiler"
    lines = [
        f"source  {who}, {kind} {source.identity[:12]}{dirty}",
        f"torch   {host.torch.version} · {nvcc} · {gcc}",
        f"for     {format_archs(request.archs)} · {len(request.extensions)} extensions, asked for "
        f"by {'variables' if request.style == 'env' else 'arguments'}",
        f"jobs    {jobs.jobs} x {jobs.threads} nvcc threads · memory limit "
        f"{prepared.limit.bytes / gib:.1f} GiB ({prepared.limit.source}) · at most "
        f"{jobs.predicted / gib:.1f} GiB expected",
    ]
    if jobs.reduced:
        lines.append(f"note    --jobs {prepared.ask.jobs} was reduced to {jobs.jobs}: each takes "
                     "up to 3 GiB, and more than the limit is never risked")
    if prepared.std:
        lines.append(f"note    {prepared.std} is set for all files, since this torch needs it")
    return lines
