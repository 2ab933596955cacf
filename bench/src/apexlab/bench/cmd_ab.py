"""`apexlab bench ab`: two images, measured in turn."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from apexlab.bench import options
from apexlab.verify.errors import OK, PROBLEM, UsageError


@click.command()
@click.argument("image_a")
@click.argument("image_b")
@options.ladder
@options.scenarios
@options.preset
@options.rounds
@options.quick
@options.device
@options.gpus
@options.seed
@options.margin
@options.allow_shared_gpu
@options.gate
@options.out
@options.as_json
def ab(image_a: str, image_b: str, rounds: int | None, margin: float, gate: bool,
       device: str | None, out: Path | None, as_json: bool, **given: Any) -> int:
    """Compare two images by measuring them in turn.

    Round by round, so that a drift of the machine meets both alike: the only comparison to trust
    for small differences. The output is Markdown, fit for a pull request; IMAGE_A is the base. The
    same image twice shows what the comparison takes for noise.
    """
    # Late, so that --help stays quick.
    from apexlab.bench.planning.rounds import QUICK_ROUNDS, ROUNDS
    from apexlab.bench.report.compare_text import gate as gate_words
    from apexlab.bench.report.compare_text import markdown
    from apexlab.bench.result.comparison import compare
    from apexlab.bench.result.result_file import read_result
    from apexlab.bench.run import ab as images
    from apexlab.bench.run import folder
    from apexlab.verify import output

    count = rounds if rounds is not None else QUICK_ROUNDS if given["quick"] else ROUNDS
    list(images.turns(count))  # refuses a count before anything is started
    pair = [images.find_image(name) for name in (image_a, image_b)]
    place = out or folder.PLACE / f"{datetime.now():%Y-%m-%d-%H%M%S}-ab"
    _make(place)
    images.run(pair, count, place, device or "cuda", _handed_on(given, place), output.complain)
    one, other = (read_result(place / side) for side in images.SIDES)
    found = compare(one, other, margin / 100, paired=True)
    text = markdown(found)
    output.write_file(place / "ab.md", text)
    output.write_file(place / "ab.json", json.dumps(
        {**found.document(), "images": [vars(image) for image in pair]}, indent=1) + "\n")
    output.write((place / "ab.json").read_text() if as_json else text)
    if gate and (blind := gate_words(found)):
        output.complain(blind)
    return PROBLEM if gate and found.regressions else OK


def _make(place: Path) -> None:
    """Raises UsageError for a folder that is in use, or cannot be made."""
    try:
        place.mkdir(parents=True, exist_ok=True)
        used = any(place.iterdir())
    except OSError as error:
        raise UsageError(f"{place} cannot be used for the results: {error.strerror}. Name a "
                         "folder that can be written with --out.") from error
    if used:
        raise UsageError(f"{place} holds something already. Name a new folder with --out.")


def _handed_on(given: Mapping[str, Any], place: Path) -> list[str]:
    """The options that `bench train` gets in the containers; a preset's file goes along."""
    handed = dict(given)
    if (own := handed["preset"]) and own.endswith(".toml"):
        from apexlab.bench.planning.preset_file import read_preset
        from apexlab.bench.run.ab import INSIDE

        read_preset(Path(own))
        shutil.copy(own, place / "preset.toml")
        handed["preset"] = f"{INSIDE}/preset.toml"
    words = []
    for name, value in handed.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value not in (None, False):
            words += [option, str(value)]
    return words
