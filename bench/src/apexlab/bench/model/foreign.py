"""Apex's classes, or a plain word on why there are none."""

from __future__ import annotations

import importlib
from typing import Any

from apexlab.verify.errors import CannotError


def made(module: str, name: str, *arguments: Any, **keywords: Any) -> Any:
    """`module.name(*arguments, **keywords)`; CannotError for whatever stops a class of Apex's.

    An extension that is absent shows only here, as any of five kinds of exception.
    """
    try:
        return getattr(importlib.import_module(module), name)(*arguments, **keywords)
    except Exception as error:
        if module.startswith("torch"):
            raise
        raise CannotError(
            f"{module}.{name} cannot be made here ({type(error).__name__}: {error}). "
            "`apexlab verify` says what is wrong with this Apex.") from error
