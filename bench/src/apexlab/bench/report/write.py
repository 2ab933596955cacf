"""All files that a result is written into."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from apexlab.bench.result.result_file import RESULT
from apexlab.verify import output

TABLE, TEXT, PAGE = "result.csv", "report.md", "report.html"


def write_report(folder: Path, result: dict[str, Any]) -> None:
    """Each file whole or not at all; the result itself first, since all others can be made from
    it. Raises CannotError."""
    # Late: the page takes a second, of which most is the import of matplotlib.
    from apexlab.bench.report.tables import csv_text

    output.write_file(folder / RESULT, json.dumps(result, indent=1, allow_nan=False) + "\n")
    output.write_file(folder / TABLE, csv_text(result))

    from apexlab.bench.report.markdown import markdown

    output.write_file(folder / TEXT, markdown(result))

    from apexlab.bench.report.page.page import page

    output.write_file(folder / PAGE, page(result))
