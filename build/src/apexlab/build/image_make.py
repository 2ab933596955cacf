"""Makes one image, or one wheel: bases, room, build, and labels held against the record."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from apexlab.build import image_bases
from apexlab.build.bake import BakeOptions, definition, tags, used_images
from apexlab.build.engine import Engine, check_room
from apexlab.build.errors import EngineError, ImageBuildError
from apexlab.build.image_build import bake
from apexlab.build.image_failures import explain
from apexlab.build.image_labels import disagreements
from apexlab.build.plan import Plan
from apexlab.verify.record import Record, parse_record


@dataclass(frozen=True)
class Made:
    """What came out: the names of the image (or the path of the wheel), the one to show first."""

    names: tuple[str, ...]
    bytes: int
    seconds: float
    record: Record
    is_image: bool


def notes(plan: Plan, options: BakeOptions) -> Iterator[str]:
    """What a person should know before minutes are spent."""
    if plan.evidence == "none" and options.source is None:
        known = f"; known is only: {plan.evidence_source}" if plan.evidence_source else ""
        yield (f"no source says that anybody built torch {plan.torch}, CUDA {plan.cuda} and Apex "
               f"{plan.ref[:8]} together{known}")
    if options.source is not None and options.source.name != "apex":
        yield f"the source calls itself {options.source.name!r}: this will not be an image of Apex"


def make(
    engine: Engine, plan: Plan, options: BakeOptions, push: bool, show: Callable[[str], None]
) -> Made:
    """Build `plan`. Raises EngineError or ImageBuildError; then nothing new is tagged."""
    start = time.monotonic()
    names = tags(plan, options)
    root = Path(options.root)
    log = root / ".cache" / "logs" / f"{options.target}-{plan.slug}.log"
    if options.base == "offline":
        bases = image_bases.read(root, plan.cuda)
        ca = None if options.ca is None else Path(options.ca)
        image_bases.ensure(engine, bases, root, ca, show)
    before = {name: image for name in names if (image := engine.find(name)) is not None}
    check_room(engine.room(), options.base, bool(before))
    used = used_images(plan, options)
    options = replace(options, digests={name: options.digests.get(name) or engine.digest(name)
                                        for name in used.values()})
    if not names:
        return _wheel(plan, options, root, log, show, start)
    bake(definition([plan], options), root, log, show)
    record = _checked(engine, names, before)
    if push:
        show(f"pushing {names[0]}")
        _push(names[0])
    return Made(names, engine.size(names[0]), time.monotonic() - start, record, True)


def _checked(engine: Engine, names: tuple[str, ...], before: Mapping[str, Any]) -> Record:
    """The record in the image, which must agree with the labels; else the image loses its names,
    and the images that had them `before` get them back."""
    record = engine.record(names[0])
    image = engine.find(names[0])
    labels = image.labels if image is not None else {}
    if wrong := disagreements(labels, record):
        for name in names:
            if name in before:
                before[name].tag(name)
            else:
                engine.client.images.remove(name, noprune=True)
        raise ImageBuildError(
            f"The image that was built is not what was asked for ({'; '.join(wrong)}), so it is "
            "not tagged. An outdated mirror of Apex or of the package index can do this.")
    return record


def _wheel(plan: Plan, options: BakeOptions, root: Path, log: Path, show: Callable[[str], None],
           start: float) -> Made:  # fmt: skip
    """Export the wheel into a scratch folder, then move each file to its place, whole."""
    out = Path(options.out).resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".wheel-") as scratch:
        bake(definition([plan], replace(options, out=scratch)), root, log, show)
        exported = sorted(Path(scratch).iterdir())
        for file in exported:
            file.replace(out / file.name)
    wheel = next(out / file.name for file in exported if file.suffix == ".whl")
    record = parse_record((out / "record.json").read_text(), str(out / "record.json"))
    return Made((str(wheel),), wheel.stat().st_size, time.monotonic() - start, record, False)


def _push(name: str) -> None:
    done = subprocess.run(["docker", "push", "--quiet", name], capture_output=True, text=True,
                          errors="replace", check=False)  # fmt: skip
    if done.returncode:
        words = (done.stdout + done.stderr).strip()
        why = explain([words]) or "Are you logged in to that registry (docker login)?"
        raise EngineError(f"{name} is built and checked, and could not be pushed: {words} {why}")
