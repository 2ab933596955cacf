"""The command line of `bench ops` on bad input."""

from __future__ import annotations

import subprocess
import sys

import pytest

from apexlab.bench import cmd_ops
from apexlab.bench.ops.cases import OPS
from apexlab.verify import device


def ops(*arguments):
    return subprocess.run(
        [sys.executable, "-c", "from apexlab.verify.main import main; main()", "bench", "ops",
         *map(str, arguments)], capture_output=True, text=True, timeout=60)


def test_the_command_knows_all_operations():
    assert cmd_ops.OPS == OPS


@pytest.mark.parametrize(("arguments", "words"), [
    (("--op", "sgd"), "'sgd' is not one of 'adam'"),
    (("--preset", "gpt-smal"), "Did you mean gpt-small"),
    (("--preset", "nowhere.toml"), "cannot be read"),
    (("--device", "tpu"), "'tpu' is not one of"),
])
def test_what_there_is_not_is_a_usage_error(arguments, words):
    done = ops(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.skipif(bool(device.look().devices), reason="there is a GPU here")
def test_without_a_gpu_it_says_what_can_be_measured_and_makes_no_folder(tmp_path):
    done = ops("--out", tmp_path / "run")
    assert done.returncode == 4
    assert "--quick --device cpu" in done.stderr
    assert not (tmp_path / "run").exists()


def test_help_imports_neither_torch_nor_rich():
    code = ("import sys; from apexlab.verify.main import run; run(['bench', 'ops', '--help']); "
            "print([name for name in ('torch', 'rich', 'matplotlib') if name in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"
