"""A text of one's own as data: its bytes are the tokens, so any file is one."""

from __future__ import annotations

import hashlib
from pathlib import Path

from apexlab.bench.model.shape import Shape
from apexlab.verify.errors import UsageError

BYTES = 256  # tokens that a byte can be
_CHUNK = 2**20


def check_text(path: Path, shape: Shape) -> str:
    """The SHA-256 of a file that `shape` can be trained on. Raises UsageError for one that it
    cannot: absent, empty, shorter than a sequence, or for a vocabulary without all bytes."""
    if shape.vocabulary < BYTES:
        raise UsageError(f"A text is read byte by byte, which takes a vocabulary of {BYTES} or "
                         f"more, and this model has {shape.vocabulary}. Choose another preset, or "
                         "leave --data out.")
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"The data {path} is not a file. Name a text file.")
        size, digest = _hashed(path)
    except OSError as error:
        raise UsageError(f"The data file {path} cannot be read: {error.strerror}. Name a file that "
                         "is there, or leave --data out.") from error
    if size <= shape.context:
        is_ = "is empty" if size == 0 else f"has {size} bytes"
        raise UsageError(f"The data file {path} {is_}, and one sequence of this model takes "
                         f"{shape.context + 1}: its {shape.context} tokens and the next. Name a "
                         "longer file, or a preset with a smaller context.")
    return digest


def sequences(size: int, context: int) -> int:
    """How many sequences of `context` + 1 bytes a text holds; neighbours share one byte."""
    return (size - 1) // context


def _hashed(path: Path) -> tuple[int, str]:
    size, total = 0, hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            total.update(chunk)
    return size, total.hexdigest()
