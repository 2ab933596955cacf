"""README's table is the matrix's own, to the letter."""

from pathlib import Path

import pytest

from apexlab.build import formats
from apexlab.build.generate import generate
from apexlab.build.matrix import load
from apexlab.verify.errors import CannotError, ProblemError

README = Path(__file__).parents[2] / "README.md"


def test_the_table_of_the_readme_has_not_drifted():
    text = README.read_text(encoding="utf-8")
    assert formats.BEGIN in text and formats.END in text, "README.md has lost its markers"
    assert formats.replaced(text, formats.markdown(load())) == text, (
        "README.md differs from matrix.toml: run python -m apexlab.build.generate README.md")


def test_a_drifted_table_is_seen_and_then_rewritten(tmp_path):
    path = tmp_path / "README.md"
    path.write_text(f"above\n{formats.BEGIN}\n| old |\n{formats.END}\nbelow\n")
    assert generate(path)
    text = path.read_text()
    assert text.startswith("above\n<!-- matrix -->\n| torch |") and text.endswith("-->\nbelow\n")
    assert not generate(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["README.md"]


@pytest.mark.parametrize("text", ["", formats.BEGIN, f"{formats.END} {formats.BEGIN}"])
def test_a_readme_without_both_markers_is_refused_and_left_alone(tmp_path, text):
    path = tmp_path / "README.md"
    path.write_text(text)
    with pytest.raises(ProblemError, match="no place for the matrix"):
        generate(path)
    assert path.read_text() == text


def test_an_absent_readme_is_said(tmp_path):
    with pytest.raises(CannotError, match="cannot be written"):
        generate(tmp_path / "no.md")
