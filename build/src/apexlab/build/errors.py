"""The errors of build. Each message is one paragraph; each class carries the exit code."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator

from apexlab.verify.errors import CannotError, ProblemError, UsageError

# -- the matrix: matrix.py, resolve.py


class MatrixError(ProblemError):
    """The matrix breaks its schema or contradicts itself."""


class MatrixUnreadableError(CannotError):
    """There is no matrix to read: no file, or not TOML."""


class NoCellError(UsageError):
    """What was asked for is no cell of the matrix; the message names the nearest that are."""


# -- the compile driver: cmd_compile.py, driver.py


class SourceError(UsageError):
    """The source folder is not something that can be built."""


class PreflightError(CannotError):
    """This machine lacks what a build needs; found before any compiler ran."""


class CompileError(ProblemError):
    """The build ran and failed, or left a wheel that is not what was asked for."""


# -- the container engine: cmd_image.py, cmd_base_images.py, image_*.py


class EngineError(CannotError):
    """The container engine, its disk or its network cannot do what is needed."""


class ImageBuildError(ProblemError):
    """A build step failed, or the image is not what its labels say."""


# -- publishing: cmd_publish.py, publish/


class RefusedError(ProblemError):
    """What was to be published is not proven, or not what it says it is."""


class RegistryError(CannotError):
    """The registry or cosign cannot do what is needed: no answer, no room, no rights."""


# -- all commands


@contextlib.contextmanager
def files_in_words() -> Iterator[None]:
    """A disk that is full or a file that may not be read is no fault of apexlab: CannotError, with
    the name of the file. Put on each command, so that no step has to think of it."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of our output left; main knows
    except OSError as error:
        # copytree goes on after an error, and hands over a list of (from, to, why) at its end.
        many = isinstance(error, shutil.Error) and isinstance(error.args[0], list)
        what = error.args[0][0][2] if many else error
        raise CannotError(
            f"The system refused: {what}. Look at the rights and the free space there, or name "
            "another place.") from error
