"""A result for TensorBoard and for Weights & Biases, each an extra of the distribution."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from apexlab.verify.errors import CannotError

_WAYS = {"tokens_per_second": ("tokens_per_second",), "ms": ("time", "median"),
         "memory_gib": ("memory", "allocated"), "speedup": ("speedup", "ratio"), "mfu": ("mfu",)}
_FACTORS = {"ms": 1e3, "memory_gib": 2.0**-30}
_POINT = ("gbps", "share_of_copy")
_CLOCKS = ("cold_us", "hot_us", "host_us", "call_us")
_UNFIT = re.compile(r"[^\w.-]+")  # in the name of a folder or a tag

Scalars = dict[str, float]


def to_tensorboard(result: dict[str, Any], folder: Path) -> None:
    """A run for each scenario below `folder`: its figures at step 0, its losses by step. Raises
    CannotError."""
    summary = _extra("tensorboard.summary", "tensorboard")
    for name, figures, losses in runs(result):
        place = folder / _UNFIT.sub("-", name)
        try:
            writer = summary.Writer(str(place))
            for tag, value in figures.items():
                writer.add_scalar(tag, value, 0)
            for step, loss in losses:
                writer.add_scalar("loss", loss, step)
            writer.close()
        except OSError as error:
            raise CannotError(f"The TensorBoard events cannot be written to {place}: "
                              f"{error.strerror or error}. Name a folder that can be "
                              "written.") from error


def to_wandb(result: dict[str, Any], project: str) -> None:
    """A run for each scenario in the project, grouped by the configuration. Raises CannotError."""
    wandb = _extra("wandb", "wandb")
    quiet = wandb.Settings(silent=True, console="off", disable_git=True, save_code=False)
    for name, figures, losses in runs(result):
        try:
            with wandb.init(project=project, name=name, group=result["configuration_hash"][:12],
                            job_type=result["kind"], config=_config(result, name),
                            settings=quiet) as run:
                for step, loss in losses:
                    run.log({"loss": loss}, step=step)
                run.summary.update(figures)
        except (wandb.Error, OSError) as error:
            raise CannotError(f"Weights & Biases did not take the run {name}: {error}. Log in with "
                              "`wandb login`, or keep the runs here with WANDB_MODE=offline.",
                              ) from error


def runs(result: dict[str, Any]) -> Iterator[tuple[str, Scalars, list[tuple[int, float]]]]:
    """Of each scenario or operator that was measured: its title, which says stand-in where it was
    one, its figures, and its losses with their steps. What was not measured is left out."""
    if result["kind"] == "ops":
        yield from ((name, figures, []) for name, figures in _points(result).items() if figures)
        return
    for each in result["scenarios"]:
        figures = {tag: value * _FACTORS.get(tag, 1.0) for tag, way in _WAYS.items()
                   if (value := _at(each, way)) is not None}
        losses = [(step, loss) for step, loss in enumerate(each["losses"] or ())
                  if loss is not None]
        if figures or losses:
            yield each["title"], figures, losses


def _points(result: dict[str, Any]) -> dict[str, Scalars]:
    """A run for each provider, so that they lie over one another in each figure's chart."""
    found: dict[str, Scalars] = {}
    for point in result["points"]:
        cast = "autocast" if point["autocast"] else "plain"
        where = "/".join(_UNFIT.sub("-", part) for part in (
            point["op"], point["case"], point["dtype"], cast, point["direction"]))
        figures = {key: point[key] for key in _POINT}
        figures |= {clock: (point[clock] or {}).get("median") for clock in _CLOCKS}
        found.setdefault(point["title"], {}).update(
            {f"{where}/{key}": value for key, value in figures.items() if value is not None})
    return found


def _at(each: Any, way: tuple[str, ...]) -> float | None:
    for key in way:
        each = (each or {}).get(key)
    return None if each is None else float(each)


def _config(result: dict[str, Any], title: str) -> dict[str, Any]:
    here = result["environment"]
    settings: dict[str, Any] = next((each["settings"] for each in result.get("scenarios", ())
                     if each["title"] == title), {})
    return {"configuration_hash": result["configuration_hash"], "settings": settings,
            "label": here["apex"]["label"],
            **{key: here[key] for key in ("device", "torch", "cuda", "driver")}}


def _extra(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise CannotError(f"The export needs the package {extra}, which is not installed. Install "
                          f"it: pip install {extra}.") from error
