"""Whether a compiled call is still the compiled call (torch)."""

from __future__ import annotations

import logging
import sys

from apexlab.bench.errors import MeasureError

LIMIT_WORDS = ("recompile_limit", "cache_size_limit")


class Compiler(logging.Handler):
    """What torch's compiler did behind a call: at its limit it goes on uncompiled, with a warning
    in its log alone; and one that compiles while it is timed is not timed. Where torch raises at
    the limit, there is nothing to hear. `limit`: whether it was reached since this was made."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.limit, self._graphs = False, 0
        self._logger = logging.getLogger("torch._dynamo")
        self._logger.addHandler(self)

    def settle(self) -> None:
        """All is compiled that will be."""
        self._graphs = self._count()

    def changed(self) -> str:
        """What went wrong since, or ""."""
        if self.limit:
            return "torch compiled it anew until its limit, and runs the rest uncompiled"
        if self._count() != self._graphs:
            return "torch compiled it again while it was timed"
        return ""

    def check(self) -> None:
        """Raises MeasureError: what is called compiled has to be."""
        if self.limit:
            raise MeasureError("torch.compile reached its limit of recompilations and ran the rest "
                               "uncompiled, so this is no time of compiled code.")

    def _count(self) -> int:
        utils = sys.modules.get("torch._dynamo.utils")  # a process that compiles nothing lacks it
        return int(utils.counters["stats"]["unique_graphs"]) if utils else 0

    def emit(self, record: logging.LogRecord) -> None:
        self.limit = self.limit or any(word in record.getMessage() for word in LIMIT_WORDS)

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
