"""From the words of `apexlab image` to plans and bake options. Everything wrong with a request is
said here, before the engine is asked for anything."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from apexlab.build import pins
from apexlab.build import source as source_
from apexlab.build.bake import BakeOptions, parse_build_args
from apexlab.build.checkout import revision
from apexlab.build.limits import parse_size
from apexlab.build.matrix import Matrix
from apexlab.build.plan import Plan
from apexlab.build.resolve import resolve
from apexlab.verify.errors import UsageError

_TAG = re.compile(r"[a-z0-9][a-z0-9._-]*(?::\d+)?(?:/[a-z0-9][a-z0-9._-]*)*(?::\w[\w.-]{0,127})?")
_ADDRESS = re.compile(r"\w+://|git@")
_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]*@")


@dataclass(frozen=True)
class Ask:
    """What a person asked for, word for word; None where a choice was left to us."""

    torch: str | None = None
    cuda: str | None = None
    everything: bool = False
    target: str = "bench"
    base: str = "nvidia"
    apex_source: str | None = None
    apex_ref: str | None = None
    python: str | None = None
    archs: str | None = None
    profile: str = "core"
    jobs: int | None = None
    memory: str | None = None
    tag: str | None = None
    push: bool = False
    out: Path = Path("dist")
    build_args: tuple[str, ...] = ()
    ca: Path | None = None


def prepare(ask: Ask, matrix: Matrix, root: Path) -> tuple[list[Plan], BakeOptions]:
    """The plans and what they have in common. Raises UsageError for all that cannot be built."""
    _check(ask)
    build_args = parse_build_args(ask.build_args)
    _check_build_args(build_args, root)
    source, repo, ref = _source(ask)
    plans = _plans(ask, matrix, ref)
    if source is not None:
        # Whoever reported this cell did not build this folder.
        plans = [plan if source.commit == plan.ref and not source.dirty
                 else replace(plan, evidence="none", evidence_source="") for plan in plans]
    options = BakeOptions(
        root=str(root), target=ask.target, base=ask.base, source=source, jobs=ask.jobs,
        memory=ask.memory, tag=ask.tag, ca=None if ask.ca is None else str(ask.ca.resolve()),
        out=str(ask.out), build_args=build_args, digests=pins.load(), revision=revision(root),
    )  # fmt: skip
    return plans, replace(options, apex_repo=repo) if repo else options


def _check(ask: Ask) -> None:
    if ask.everything and (ask.torch or ask.cuda or ask.tag):
        raise UsageError("--all builds every cell under its own name: it goes with none of "
                         "--torch, --cuda and --tag.")
    if not ask.everything and (ask.torch is None or ask.cuda is None):
        missing = " and ".join(name for name, value in (("--torch (with make TORCH=)", ask.torch),
                                                        ("--cuda (CUDA=)", ask.cuda))
                               if value is None)
        raise UsageError(f"Missing: {missing}. A cell is a pair, such as --torch 2.6 --cuda "
                         "12.4 (TORCH=2.6 CUDA=12.4); `apexlab matrix` lists them, and --all "
                         "means every one.")
    if ask.tag is not None and not _TAG.fullmatch(ask.tag):
        raise UsageError(f"--tag {ask.tag!r} is not a name for an image, such as apexlab:mine.")
    if ask.tag is not None and ask.target == "wheel":
        raise UsageError("--tag names an image, and --target wheel makes none. Leave it out.")
    if ask.push and not ask.tag:
        raise UsageError("--push needs --tag REGISTRY/NAME:TAG, to know where to.")
    if ask.memory is not None:
        parse_size(ask.memory)
    if any(_PASSWORD.search(text) for text in (*ask.build_args, ask.apex_source or "")):
        raise UsageError("An address with a password is not taken: build arguments stay readable "
                         "in the image's history and in the log. Use a mirror that asks for none; "
                         "for Apex, give --apex-source the folder of a checkout.")


def _check_build_args(names: Iterable[str], root: Path) -> None:
    """Docker takes any name without a word, and a mirror with a typo would not be used."""
    text = (root / "docker" / "Dockerfile").read_text()
    known = sorted(set(re.findall(r"^ARG (\w+)", text, re.MULTILINE)))
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"docker/Dockerfile has no argument {', '.join(unknown)}. It has "
                         f"{', '.join(known)}.")


def _source(ask: Ask) -> tuple[source_.Source | None, str, str | None]:
    """(folder, repository, commit) that --apex-source and --apex-ref mean."""
    if ask.apex_source is None:
        return None, "", ask.apex_ref
    if _ADDRESS.match(ask.apex_source):
        repo, _, fragment = ask.apex_source.partition("#")
        return None, repo, ask.apex_ref or fragment or None
    folder = Path(ask.apex_source)
    if not ask.apex_source or not folder.is_dir():
        raise UsageError(f"--apex-source {ask.apex_source!r} is no folder here, and no address of "
                         "a repository (https://...).")
    source = source_.inspect(folder.resolve(), ask.apex_ref)
    return source, "", ask.apex_ref


def _plans(ask: Ask, matrix: Matrix, ref: str | None) -> list[Plan]:
    def plan(torch: str, cuda: str) -> Plan:
        return resolve(matrix, torch, cuda, python=ask.python, apex_ref=ref, archs=ask.archs,
                       profile=ask.profile, base=ask.base)  # fmt: skip

    if not ask.everything:
        return [plan(ask.torch or "", ask.cuda or "")]
    plans, reasons = [], []
    for cell in matrix.cells:
        try:
            plans.append(plan(cell.torch, cell.cuda))
        except UsageError as error:
            # `--all --base offline` means all that there are, and most cells have no such base.
            reasons.append(str(error))
    if not plans:
        raise UsageError(f"No cell can be built like this. The first says: {reasons[0]}")
    return plans
