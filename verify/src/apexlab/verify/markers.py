"""Generated sections of a page, each between its markers: `<!-- name -->` and `<!-- /name -->`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from apexlab.verify import errors, output


def replaced(text: str, sections: Mapping[str, str]) -> str | None:
    """The page with its sections made anew; None where a marker is absent."""
    for name, section in sections.items():
        begin, end = _markers(name)
        before, found, rest = text.partition(begin)
        _, ended, after = rest.partition(end)
        if not found or not ended:
            return None
        text = f"{before}{begin}\n{section}\n{end}{after}"
    return text


def rewrite(path: Path, sections: Mapping[str, str]) -> bool:
    """Bring the page `path` up to date; True when it had drifted.

    Raises CannotError when the file cannot be read or written, ProblemError when it lacks markers.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.CannotError(f"The page {path} cannot be read: {error}. Name the page that is "
                                 "to be brought up to date.") from error
    new = replaced(text, sections)
    if new is None:
        names = ", ".join(" and ".join(_markers(name)) for name in sections)
        raise errors.ProblemError(
            f"{path} has no place for what is generated. Put these lines where it belongs: "
            f"{names}.")
    if new != text:
        output.write_file(path, new)
    return new != text


def _markers(name: str) -> tuple[str, str]:
    return f"<!-- {name} -->", f"<!-- /{name} -->"
