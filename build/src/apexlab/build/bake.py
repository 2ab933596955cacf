"""The bake definition: what `docker buildx bake` is told to build, as one JSON document.

Pure. It is written for buildx 0.13.1 and later: secrets as strings, no `network` key.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apexlab.build.image_labels import make_labels
from apexlab.build.plan import Plan
from apexlab.build.source import Source
from apexlab.verify.errors import UsageError

NVIDIA = "docker.io/nvidia/cuda"
OFFLINE = "apexlab/offline"
APEX = "https://github.com/NVIDIA/apex.git"


@dataclass(frozen=True)
class BakeOptions:
    """What is the same for all plans of one definition.

    root: the checkout, the build context; source: a local source tree instead of the stage that
    fetches Apex; apex_repo: a mirror of its repository; ca: a file of certificates; out: the folder
    for the target `wheel`; digests: image name -> digest, where they are known; revision: the
    commit of apexlab itself.
    """

    root: str = "."
    target: str = "bench"
    base: str = "nvidia"
    source: Source | None = None
    apex_repo: str = APEX
    jobs: int | None = None
    memory: str | None = None
    tag: str | None = None
    ca: str | None = None
    out: str = "dist"
    build_args: Mapping[str, str] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    revision: str = ""


def definition(plans: Sequence[Plan], options: BakeOptions) -> dict[str, Any]:
    """The definition with one target for each plan, and all of them in the group `default`.

    `latest` is given only where there is one plan: of several, none is the last by right.
    """
    names = [target_name(plan) for plan in plans]
    targets = [_target(plan, options, latest=len(plans) == 1) for plan in plans]
    return {
        "group": {"default": {"targets": names}},
        "target": dict(zip(names, map(_literal, targets), strict=True)),
    }


def target_name(plan: Plan) -> str:
    """The plan's slug without dots, which bake does not allow in a name."""
    return plan.slug.replace(".", "_")


def tags(plan: Plan, options: BakeOptions, latest: bool = True) -> tuple[str, ...]:
    """The names of the image that is built, the one to show first."""
    if options.target == "wheel":
        return ()
    if options.tag is not None:
        return (options.tag,)
    name = f"apexlab:{plan.slug}" + ("-runtime" if options.target == "runtime" else "")
    return (name, "apexlab:latest") if latest else (name,)


def images(plan: Plan, base: str) -> dict[str, str]:
    """The images that the stages start from: `base` and `devel`."""
    if base == "offline":
        names = {kind: f"{OFFLINE}:{plan.cuda}-{kind}-{plan.os}" for kind in ("base", "devel")}
    else:
        names = {kind: f"{NVIDIA}:{plan.cuda_image}-{kind}-{plan.os}" for kind in ("base", "devel")}
    return names


def parse_build_args(words: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE words as a dictionary. Raises UsageError for anything else."""
    pairs = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--build-arg {word!r} is not of the form NAME=VALUE.")
        pairs[name] = value
    return pairs


def _target(plan: Plan, options: BakeOptions, latest: bool) -> dict[str, Any]:
    target: dict[str, Any] = {
        "context": options.root,
        "dockerfile": "docker/Dockerfile",
        "target": "wheel-export" if options.target == "wheel" else options.target,
        "args": _args(plan, options),
    }
    if options.source is not None:
        target["contexts"] = {"apex": str(options.source.path)}
    if options.ca is not None:
        target["secret"] = [csv_line(id="ca", src=options.ca)]
    if options.target == "wheel":
        target["output"] = [csv_line(type="local", dest=options.out)]
        return target
    target["tags"] = list(tags(plan, options, latest))
    target["labels"] = make_labels(
        plan, options.source, used_images(plan, options), options.digests, options.revision)
    target["output"] = ["type=docker"]
    return target


def used_images(plan: Plan, options: BakeOptions) -> dict[str, str]:
    """`images`, with what the build arguments put in their place."""
    named = images(plan, options.base)
    return {kind: options.build_args.get(f"{kind.upper()}_IMAGE", name)
            for kind, name in named.items()}  # fmt: skip


def _args(plan: Plan, options: BakeOptions) -> dict[str, str]:
    """The build arguments; what is empty is left to the Dockerfile's default."""
    names = used_images(plan, options)
    args = {
        "BASE_IMAGE": _pinned(names["base"], options.digests),
        "DEVEL_IMAGE": _pinned(names["devel"], options.digests),
        "TORCH_REQUIREMENT": plan.torch_requirement,
        "TORCH_INDEX": plan.torch_index,
        "PYTHON": "" if plan.python_is_os else plan.python,
        "APEX_REPO": options.apex_repo if options.source is None else "",
        "APEX_REF": plan.ref if options.source is None else options.source.commit or "",
        "ARCHS": plan.arch_list,
        "PROFILE": plan.profile,
        "JOBS": "" if options.jobs is None else str(options.jobs),
        "MEMORY": options.memory or "",
        "IMAGES": json.dumps({kind: {"name": name, "digest": options.digests.get(name)}
                              for kind, name in names.items()}),
    }  # fmt: skip
    args |= {key: value for key, value in options.build_args.items() if not key.endswith("_IMAGE")}
    return {key: value for key, value in args.items() if value}


def csv_line(**pairs: str) -> str:
    """What bake takes for an output or a secret, `a=b,c=d`: one line of CSV, so that a comma in a
    folder's name is no separator."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(f"{key}={value}" for key, value in pairs.items())
    return line.getvalue()


def _pinned(name: str, digests: Mapping[str, str]) -> str:
    """The name with its digest, so that the image in the record is the image that is used. An
    image that exists only here has no digest in a registry and cannot be named by one."""
    digest = digests.get(name, "")
    local = name.startswith(f"{OFFLINE}:") or "@" in name or not digest
    return name if local else f"{name}@{digest}"


def _literal(value: Any) -> Any:
    """`value` with all text safe from bake, which takes `${` and `%{` for templates."""
    if isinstance(value, str):
        return value.replace("${", "$${").replace("%{", "%%{")
    if isinstance(value, list):
        return [_literal(entry) for entry in value]
    if isinstance(value, dict):
        return {key: _literal(entry) for key, entry in value.items()}
    return value
