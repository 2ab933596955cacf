"""Puts a build record together from what was asked for and what came out."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apexlab.build import runner
from apexlab.build.limits import Limit
from apexlab.build.preflight import Host
from apexlab.build.request import Request
from apexlab.build.source import Source
from apexlab.verify.binary import Binary, read_binary
from apexlab.verify.errors import UnreadableError
from apexlab.verify.record import Built, Record


def extension_name(path: Path) -> str:
    """The extension that a file belongs to: `amp_C` of amp_C.cpython-311-x86_64-linux-gnu.so, and
    of `_amp_C.abi3.so`, whose shim carries the name without the underscore."""
    return path.name.split(".")[0].removeprefix("_")


def built_of(root: Path, modules: list[Path], seconds: Mapping[str, float]) -> tuple[Built, ...]:
    """What is in the unpacked wheel. An unreadable file has no targets; the gate names it."""
    return tuple(_built(root, path, seconds) for path in modules)


def _built(root: Path, path: Path, seconds: Mapping[str, float]) -> Built:
    name = extension_name(path)
    binary: Binary | None
    try:
        binary = read_binary(path)
    except UnreadableError:
        binary = None
    return Built(
        name=name,
        file=path.relative_to(root).as_posix(),
        bytes=path.stat().st_size,
        sha256=binary.sha256 if binary else "",
        targets=binary.targets if binary else (),
        ptx=binary.ptx if binary else (),
        seconds=seconds.get(name),
    )


def make_record(
    source: Source, request: Request, host: Host, limit: Limit, ended: runner.Ended,
    built: tuple[Built, ...], *, std: str | None, url: str | None, cached: bool,
    images: dict[str, Any],
) -> Record:  # fmt: skip
    """The record, without the wheel's own name and hash: it travels inside the wheel."""
    torch, toolkit, compiler = host.torch, host.toolkit, host.compiler
    return Record(
        source=source.name,
        apex={
            "url": without_password(url) if url else None,
            "path": str(source.path),
            "commit": source.commit,
            "tree": source.tree,
            "dirty": source.dirty,
            "request_style": request.style,
            "flags": list(request.flags),
        },
        torch={
            "version": torch.version,
            "git": torch.git,
            "cuda": torch.cuda,
            "cxx11_abi": torch.cxx11_abi,
            "cxx_std": std or torch.cxx_std,
        },
        toolkit={
            "nvcc": toolkit.version if toolkit else None,
            "host_compiler": f"{compiler.name} {compiler.version}" if compiler else None,
        },
        python={"tag": torch.python, "platform": torch.platform},
        archs=tuple(map(str, request.archs)),
        profile=request.profile,
        requested=request.extensions,
        built=built,
        build={
            "jobs": host.jobs.jobs,
            "nvcc_threads": host.jobs.threads,
            "memory_limit": limit.bytes,
            "memory_limit_source": limit.source,
            "memory_predicted": host.jobs.predicted,
            "memory_peak": ended.peak,
            "memory_peak_source": runner.PEAK_SOURCE,
            "seconds": round(ended.seconds, 1),
            "compiler_cache": "ccache" if cached else None,
        },
        images=images,
        created=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    )


def without_password(url: str) -> str:
    """The URL without user and password: a record travels further than its writer thinks."""
    return re.sub(r"(?<=://)[^/@]*@", "", url)


def local_version(source: Source, torch: str) -> str:
    """The local part of the wheel's version: `g5c8860f1.torch2.4.1.cu124`."""
    words = re.sub(r"[^a-z0-9]+", ".", torch.lower()).strip(".")
    return f"g{source.identity[:8]}.torch{words}"
