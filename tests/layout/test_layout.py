"""The folder names of this repository (build above all) set traps; these tests keep them out."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import click
import pytest

from apexlab.verify import main

ROOT = Path(__file__).resolve().parents[2]
MEMBERS = ("build", "verify", "bench")


def git(*args: str) -> list[str]:
    done = subprocess.run(["git", "-C", ROOT, *args], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def hazards(root: Path) -> list[str]:
    """What must not exist: `python -m build` would run it, or the namespace would break."""
    bad = [root / "build" / name for name in ("__init__.py", "__main__.py")]
    bad += [root / member / "src" / "apexlab" / "__init__.py" for member in MEMBERS]
    return [str(path.relative_to(root)) for path in bad if path.exists()]


def test_no_file_turns_build_into_a_package_or_breaks_the_namespace():
    assert hazards(ROOT) == []


@pytest.mark.parametrize("name", ["build/__init__.py", "build/__main__.py",
                                  "verify/src/apexlab/__init__.py"])
def test_the_check_sees_each_hazard(tmp_path, name):
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).touch()
    assert hazards(tmp_path) == [name]


def test_python_m_build_is_not_our_folder(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    spec = importlib.util.find_spec("build")
    assert spec is None or spec.origin is None or not Path(spec.origin).is_relative_to(ROOT)


def test_no_ignore_rule_hides_a_source_file():
    hidden = git("ls-files", "--others", "--ignored", "--exclude-standard", "--", *MEMBERS)
    assert [name for name in hidden if "__pycache__" not in name] == []


def test_the_tests_of_build_are_collected_from_the_root():
    env = {**os.environ, "APEXLAB_RINGS": "all"}
    done = subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "-q",
                           "--assert=plain"],  # nothing is run, so no assert has to say more
                          cwd=ROOT, env=env, capture_output=True, text=True)
    for folder in ("build", "verify", "docker"):
        assert f"tests/{folder}/" in done.stdout, done.stdout[-2000:]


def test_each_help_line_is_the_first_line_of_its_command():
    context = click.Context(main.apexlab)
    names = main.apexlab.list_commands(context)
    assert set(names) == set(main.SUMMARIES)
    for name in names:
        command = main.apexlab.get_command(context, name)
        assert (command.help or "").strip().splitlines()[0] == main.SUMMARIES[name]


def test_the_shortcut_to_verifys_own_commands_names_its_entry_points():
    points = metadata.entry_points(group=main.GROUP)
    own = {point.name: point.value for point in points if point.value.startswith("apexlab.verify.")}
    assert own == main.OWN


def test_help_imports_no_subcommand():
    code = ("import sys; from apexlab.verify import main; main.run(['--help']); "
            "print([m for m in sys.modules if '.cmd_' in m or m in ('rich', 'docker', 'torch')])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_verify_depends_on_no_other_part():
    for path in (ROOT / "verify" / "src").rglob("*.py"):
        text = path.read_text()
        assert "apexlab.build" not in text and "apexlab.bench" not in text, path


def test_nothing_outside_the_tests_knows_the_name_of_the_stand_in():
    # These name its folder, as a path, and know nothing else of it.
    allowed = {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "pyproject.toml", "Makefile",
               "build/scripts/try_it.py", "build/scripts/publish_trial.py",
               "build/benchmarks/memory_limits.py", "build/benchmarks/image_size.py",
               "build/benchmarks/compiler_cache.py",
               ".ci/run", ".dockerignore", ".pre-commit-config.yaml"}
    for name in git("ls-files", "--cached", "--others", "--exclude-standard"):
        path = ROOT / name
        if name.startswith("tests/") or name in allowed or not path.is_file():
            continue
        text = path.read_text(errors="replace")
        assert not re.search(r"\bstandin\b", text), name
