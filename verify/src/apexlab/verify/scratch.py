"""A folder for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from apexlab.verify.errors import CannotError


@contextmanager
def scratch(purpose: str) -> Iterator[Path]:
    """An empty folder that is gone afterwards. Raises CannotError where nothing can be written,
    as in a container with a read-only file system."""
    try:
        folder = TemporaryDirectory(prefix=f"apexlab-{purpose}-", ignore_cleanup_errors=True)
    except OSError as error:
        raise CannotError(f"No temporary folder can be made: {error.strerror}. Set TMPDIR to a "
                          "folder that can be written (docker run --tmpfs /tmp ...).") from error
    with folder as path:
        yield Path(path)
