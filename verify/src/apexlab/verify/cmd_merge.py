"""`apexlab verify merge DIR`: the reports of many nodes as one."""

from __future__ import annotations

from pathlib import Path

import click

from apexlab.verify import options
from apexlab.verify.errors import ApexlabError, worst


@click.command()
@click.argument("folder", metavar="DIR",
                type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--expect", type=click.IntRange(min=1), metavar="N",
              help="How many nodes there are: one that left no report is then no longer silent.")
@options.as_json
@options.html
@click.pass_context
def merge(ctx: click.Context, folder: Path, expect: int | None, as_json: bool,
          html: Path | None) -> int:
    """Merge the JSON reports of many nodes, DIR/NODE.json, into one.

    The exit code is the worst of theirs; 4 too where a file is no report that can be read.
    """
    # Late, so that --help stays quick.
    import json

    from apexlab.verify import merge as merging
    from apexlab.verify import merge_page, merge_text, output, render

    if html is not None:
        output.check_writable(html)
    merged = merging.collect(folder, expect)
    codes = [merged.exit_code]
    if html is not None:
        try:
            output.write_file(html, merge_page.page(merged))
        except ApexlabError as error:
            output.complain(f"apexlab: {error}")
            codes.append(error.exit_code)
    output.write(json.dumps(merged.to_dict(), indent=2) + "\n" if as_json
                 else render.shown(merge_text.lines(merged), ctx.color))
    return worst(codes)
