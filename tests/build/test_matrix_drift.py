"""README's table is the matrix's own, to the letter."""

from pathlib import Path

from apexlab.build import formats
from apexlab.build.matrix import load
from apexlab.verify import markers

README = Path(__file__).parents[2] / "README.md"


def test_the_table_of_the_readme_has_not_drifted():
    text = README.read_text(encoding="utf-8")
    assert "<!-- matrix -->\n| torch |" in text
    assert markers.replaced(text, {"matrix": formats.markdown(load())}) == text, (
        "README.md differs from matrix.toml: run make generate")
