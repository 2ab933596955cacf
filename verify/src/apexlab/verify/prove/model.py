"""One training step of a user's own model: which of its classes are Apex's, and what it launched.

The contract: `factory()` gives `(model, optimizer, step)`, where `step()` runs one whole training
step (forward, backward, optimizer.step) and the optimizer may be None.
"""

from __future__ import annotations

import importlib
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn

_CONTRACT = "it has to return (model, optimizer, step), and step() to run one training step"


class FactoryError(Exception):
    """The factory or its step cannot be used; the text says why, in one sentence."""


def examine(factory_name: str, instruments: Any, device: Any) -> dict[str, Any]:
    """What the model is made of, and the launches of its third step.

    {"factory", "device", "norms", "others", "optimizer", "profiler", "interposer"}: a class is
    {"name", "count", "apex", "base"}, with the Apex class that it is or derives from as `base`;
    "others" are Apex's modules that are no norms. Raises FactoryError.
    """
    model, optimizer, step = _made(factory_name)
    kinds = Counter(type(module) for module in model.modules())
    norms = [kind for kind in kinds if _is_norm(kind)]
    others = [kind for kind in kinds if kind not in norms and _base(kind)]
    for _ in range(2):  # the first steps make state, choose algorithms and compile
        _call(step, "step()")
    with instruments.watch(device) as seen:
        _call(step, "step()")
    return {
        "factory": factory_name, "device": str(device),
        "norms": _described(norms, kinds), "others": _described(others, kinds),
        "optimizer": None if optimizer is None else _class(type(optimizer), 1),
        "profiler": seen.profiler, "interposer": seen.interposer,
    }  # fmt: skip


def _made(factory_name: str) -> tuple[Any, Any, Callable[[], Any]]:
    """What the factory gives."""
    import torch

    made = _call(_factory(factory_name), "the factory")
    if not isinstance(made, (tuple, list)) or len(made) != 3:
        many = f" of {len(made)}" if isinstance(made, (tuple, list)) else ""
        raise FactoryError(f"{factory_name} returned an object of type "
                           f"{type(made).__name__}{many}: {_CONTRACT}")
    model, optimizer, step = made
    if not isinstance(model, torch.nn.Module):
        raise FactoryError(f"the model is a {type(model).__name__} and no torch.nn.Module: "
                           f"{_CONTRACT}")
    if not callable(step):
        raise FactoryError(f"step is a {type(step).__name__}, which cannot be called: {_CONTRACT}")
    return model, optimizer, step


def _factory(name: str) -> Callable[[], Any]:
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise FactoryError(f"{name!r} is not of the form package.module:factory")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        _raise(f"{module_name} cannot be imported", error)
    try:
        factory = getattr(module, attribute)
    except AttributeError:
        where = getattr(module, "__file__", None) or module_name
        raise FactoryError(f"{module_name} ({where}) has no {attribute}") from None
    if not callable(factory):
        raise FactoryError(f"{name} is a {type(factory).__name__}, which cannot be called")
    return factory  # type: ignore[no-any-return]


def _call(function: Callable[[], Any], what: str) -> Any:
    try:
        return function()
    except (Exception, SystemExit) as error:
        _raise(f"{what} fails", error)


def _raise(what: str, error: BaseException) -> NoReturn:
    """Say it with the innermost line of code, which is where its author has to look."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    raise FactoryError(f"{what}: {type(error).__name__}: {error}{place}") from error


def _is_norm(kind: type) -> bool:
    """Whether it, or a class that it derives from, is called a norm, of whatever package."""
    return any("Norm" in one.__name__ for one in kind.__mro__)


def _base(kind: type) -> str | None:
    """The first of its classes that is Apex's."""
    return next((_name(one) for one in kind.__mro__ if _name(one).startswith("apex.")), None)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _class(kind: type, count: int) -> dict[str, Any]:
    base = _base(kind)
    return {"name": _name(kind), "count": count, "apex": base is not None, "base": base}


def _described(kinds: list[type], counts: Counter[type]) -> list[dict[str, Any]]:
    return [_class(kind, counts[kind]) for kind in sorted(kinds, key=_name)]
