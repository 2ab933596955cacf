"""The table of calls: complete, made of functions that exist, and free of torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from apexlab.verify import prove
from apexlab.verify.extensions import EXTENSIONS
from apexlab.verify.findings import BY_CODE
from apexlab.verify.prove.table import CALLS, FALLBACKS

FOLDER = Path(prove.__file__).parent
TREES = {path.stem: ast.parse(path.read_text()) for path in FOLDER.glob("*.py")}


def definition(function):
    file, _, name = function.partition(":")
    return next(node for node in TREES[file].body
                if isinstance(node, ast.FunctionDef) and node.name == name)


@pytest.mark.parametrize("extension", EXTENSIONS, ids=lambda extension: extension.name)
def test_every_extension_has_a_call_that_is_required(extension):
    assert any(call.extension == extension.name and call.required for call in CALLS)


@pytest.mark.parametrize("row", [*CALLS, *FALLBACKS], ids=lambda row: row.function)
def test_every_row_names_a_function_that_takes_its_options(row):
    arguments = definition(row.function).args
    taken = {argument.arg for argument in arguments.kwonlyargs}
    needed = {argument.arg for argument, default in
              zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None}
    options = set(getattr(row, "options", {}))
    assert [argument.arg for argument in arguments.args] == ["case"]
    assert needed <= options and (options <= taken or arguments.kwarg)


def test_no_two_calls_look_the_same_in_a_report():
    names = [(call.api, call.condition, dtype) for call in CALLS for dtype in call.dtypes]
    assert len(set(names)) == len(names)
    assert {dtype for _, _, dtype in names} == {"fp32", "fp16", "bf16"}


def test_only_calls_that_a_ref_may_lack_or_refuse_are_not_required():
    optional = {call.api for call in CALLS if not call.required and "refusable" not in call.options}
    assert optional == {
        "FusedAdam", "contrib.clip_grad.clip_grad_norm_", "contrib.optimizers.FusedAdam",
        "MixedFusedLayerNorm", "MixedFusedRMSNorm"}
    required = {(call.api, call.condition) for call in CALLS if call.required}
    assert {("FusedAdam", ""), ("FusedAdam", "capturable"),
            ("MixedFusedLayerNorm", "width 1024")} <= required


def test_every_known_fallback_is_information():
    assert len({known.code for known in FALLBACKS}) == len(FALLBACKS)
    for known in FALLBACKS:
        assert BY_CODE[known.code].severity == "info"
        assert known.extension in {extension.name for extension in EXTENSIONS}


def test_the_table_can_be_read_without_torch():
    code = ("import sys; sys.modules['torch'] = None\n"
            "from apexlab.verify.prove.table import CALLS; print(len(CALLS))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == str(len(CALLS)), done.stderr


def test_the_folder_needs_nothing_but_python_torch_and_apex():
    allowed = {*sys.stdlib_module_names, "torch", "apex"}
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert {alias.name.split(".")[0] for alias in node.names} <= allowed, name
            if isinstance(node, ast.ImportFrom) and not node.level:
                assert node.module.split(".")[0] in allowed, name
