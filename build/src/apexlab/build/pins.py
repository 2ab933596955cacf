"""The digests that the base images are pinned to, in pins.toml beside this file.

`python -m apexlab.build.refresh` writes that file; an image without a pin is taken as the
registry has it on the day.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from apexlab.build.errors import MatrixError, MatrixUnreadableError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_PATH = Path(__file__).with_name("pins.toml")
HEAD = """\
# Which digest each base image is pinned to. Written by `python -m apexlab.build.refresh`, and
# empty until that has run where the registry can be reached.
"""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def load(path: Path = DEFAULT_PATH) -> dict[str, str]:
    """Image name -> digest. Raises MatrixUnreadableError or MatrixError."""
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise MatrixUnreadableError(f"The pins {path} cannot be read: {error}. Give the file back, "
                                    "or install apexlab-build again.") from error


def parse(text: str, where: str) -> dict[str, str]:
    """The pins in `text`; what is there has to be digests. Raises MatrixUnreadableError or
    MatrixError, naming `where`."""
    try:
        images = tomllib.loads(text).get("image", {})
    except tomllib.TOMLDecodeError as error:
        raise MatrixUnreadableError(f"The pins {where} are not TOML: {error}. Write them anew: "
                                    "python -m apexlab.build.refresh.") from error
    if not isinstance(images, dict) or not all(
            isinstance(digest, str) and _DIGEST.fullmatch(digest) for digest in images.values()):
        raise MatrixError(f"The pins {where} hold something that is no digest. Write them anew: "
                          "python -m apexlab.build.refresh.")
    return images


def text(digests: Mapping[str, str]) -> str:
    """The file with these pins; JSON's strings are TOML's."""
    lines = [f"{json.dumps(name)} = {json.dumps(digests[name])}\n" for name in sorted(digests)]
    return "".join((HEAD, "\n[image]\n", *lines))
