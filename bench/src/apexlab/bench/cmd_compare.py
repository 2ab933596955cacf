"""`apexlab bench compare`: two results, and what became of each figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apexlab.bench import options
from apexlab.verify.errors import OK, PROBLEM, UsageError

if TYPE_CHECKING:
    from apexlab.bench.result.comparison import Compared


@click.command()
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@options.margin
@options.gate
@click.option("--force", is_flag=True, help="Compare although the two are unlike; say in what.")
@options.as_json
def compare(base: Path, new: Path, margin: float, gate: bool, force: bool, as_json: bool) -> int:
    """Compare two results: a verdict for each figure.

    BASE and NEW are result.json files, or folders of runs. The output is Markdown, fit for a pull
    request. Two runs share no rounds, so a drift of the machine between them is not told from a
    change: `apexlab bench ab` alternates two images, and is the better gate.
    """
    from apexlab.bench.report.compare_text import gate as gate_words
    from apexlab.bench.report.compare_text import markdown
    from apexlab.bench.result.result_file import damaged
    from apexlab.verify import output

    found = compared(base, new, margin / 100, force)
    with damaged(Path(f"{base} or {new}")):
        text = json.dumps(found.document(), indent=1) + "\n" if as_json else markdown(found)
    output.write(text)
    if gate and (blind := gate_words(found)):
        output.complain(blind)
    return PROBLEM if gate and found.regressions else OK


def compared(base: Path, new: Path, margin: float, force: bool) -> Compared:
    """Raises UsageError for what cannot be read, what is the same, and, unless forced, what is
    unlike."""
    from apexlab.bench.result import comparison
    from apexlab.bench.result.result_file import damaged, read_result

    one, other = read_result(base), read_result(new)
    if one == other:
        raise UsageError(f"{base} and {new} are the same result, which compares as equal to "
                         "itself whatever it holds. Name two runs; the noise of one run is in its "
                         "own report.")
    _refuse_kinds(one, other)
    with damaged(Path(f"{base} or {new}")):
        unlike = comparison.unlike(one, other)
    if unlike and not force:
        raise UsageError(f"The two results are not alike ({'; '.join(unlike)}), so a difference "
                         "would not be one of speed. Measure both alike, or compare them all the "
                         "same with --force.")
    with damaged(Path(f"{base} or {new}")):
        return comparison.compare(one, other, margin)


def _refuse_kinds(one: dict[str, Any], other: dict[str, Any]) -> None:
    if one["kind"] != other["kind"]:
        raise UsageError(f"One result is of `bench {one['kind']}` and the other of `bench "
                         f"{other['kind']}`: they have no figure in common. Name two of one kind.")
