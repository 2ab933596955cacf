"""The command line of `apexlab compile`: bad input gets one paragraph and the right exit code."""

import importlib.util
import os
import subprocess
import sys

import pytest

from apexlab.build import source
from apexlab.build.errors import files_in_words
from apexlab.verify.errors import CannotError

CODE = "import sys; from apexlab.verify.main import main; main(sys.argv[1:])"


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    for name in ("apex/__init__.py", "csrc/a.cu"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text("")
    (root / "setup.py").write_text("raise SystemExit('setup.py was run')\n")
    return root


def compile_(*arguments):
    return subprocess.run([sys.executable, "-c", CODE, "compile", *map(str, arguments)],
                          capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--archs", "8.6;compute"], "'compute' in the architecture list"),
        (["--archs", ""], "list of architectures is empty"),
        (["--archs", "9.0,9.0"], "twice"),
        (["--profile", "everything"], "There is no profile 'everything'"),
        (["--profile", "full"], "profile full needs an Apex commit"),
        (["--memory", "lots"], "not an amount of memory"),
        (["--memory", ""], "not an amount of memory"),
        (["--jobs", "0"], "--jobs"),
        (["--jobs", ""], "--jobs"),
        (["--ref", "main"], "not a full commit hash"),
        (["--images", "{"], "--images is not JSON"),
        (["--images", "[]"], "must be a JSON object"),
    ],
)
def test_bad_input_is_a_usage_error(tree, tmp_path, options, says):
    done = compile_(tree, "--out", tmp_path / "out", *options)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_not_apex(tmp_path):
    done = compile_(tmp_path, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "is not an Apex source tree" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("place", [".", "out", "csrc/deep/out"])
def test_a_source_is_never_written_to(tree, place):
    done = compile_(tree, "--out", tree / place)
    assert done.returncode == 2
    assert "--out is" in done.stderr
    assert sorted(path.name for path in tree.rglob("*")) == [
        "__init__.py", "a.cu", "apex", "csrc", "setup.py"]


def test_scratch_files_inside_of_the_source_are_refused_too(tree, tmp_path, monkeypatch):
    """The copy of the source would lie in what is copied."""
    monkeypatch.setenv("TMPDIR", str(tree / "csrc"))
    done = compile_(tree, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "TMPDIR is" in done.stderr


def test_what_is_no_file_does_not_stop_or_hang_the_search_for_headers(tree, tmp_path):
    os.mkfifo(tree / "csrc" / "pipe.cu")
    (tree / "csrc" / "folder.cu").mkdir()
    (tree / "csrc" / "gone.h").symlink_to("/nonexistent")
    assert "internal error" not in compile_(tree, "--out", tmp_path / "out").stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_file_that_may_not_be_read_is_named(tree):
    secret = tree / "csrc" / "a.cu"
    secret.chmod(0)
    os.seteuid(65534)
    try:
        with pytest.raises(CannotError, match=r"Permission denied: .*a\.cu"), files_in_words():
            secret.read_text()
    finally:
        os.seteuid(0)


def test_a_copy_that_failed_names_one_reason(tree, tmp_path):
    os.mkfifo(tree / "csrc" / "pipe.cu")
    with pytest.raises(CannotError, match=r"refused: .*cu. is a named pipe"), files_in_words():
        source.copy(source.inspect(tree), tmp_path / "copy")


def test_a_reader_that_left_is_not_a_matter_of_files():
    with pytest.raises(BrokenPipeError), files_in_words():
        raise BrokenPipeError


def test_a_folder_that_does_not_exist(tmp_path):
    assert compile_(tmp_path / "no", "--out", tmp_path / "out").returncode == 2


def test_a_machine_without_a_cuda_build_of_torch_is_told_what_it_lacks(tree, tmp_path):
    """This Python has no torch, so nothing is compiled."""
    if importlib.util.find_spec("torch"):
        pytest.skip("this Python has a torch of its own, and the environment of make test has none")
    done = compile_(tree, "--out", tmp_path / "out", "--archs", "9.0")
    assert done.returncode == 4
    assert "Nothing was compiled" in done.stderr
    assert "torch" in done.stderr
    assert "setup.py was run" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_help_imports_nothing_heavy():
    code = ("import sys; from apexlab.verify.main import run; run(['compile', '--help']);"
            "print([name for name in ('torch', 'rich', 'jsonschema', 'apexlab.build.driver')"
            " if name in sys.modules], file=sys.stderr)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--memory" in done.stdout
    assert done.stderr.strip() == "[]"
