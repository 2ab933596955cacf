"""Each semantic check, proven by the shipped matrix with one thing in it changed."""

import copy

import pytest

from apexlab.build.checks import CHECKS, check
from apexlab.build.matrix import DEFAULT_PATH, parse, read

SHIPPED = read(DEFAULT_PATH)


def row(tables, table, **key):
    return next(r for r in tables[table] if all(r[k] == v for k, v in key.items()))


def broken(change):
    tables = copy.deepcopy(SHIPPED)
    change(tables)
    return check(parse(tables))


def test_the_shipped_matrix_is_sound():
    assert check(parse(SHIPPED)) == ()


def test_a_fault_that_all_refs_share_is_said_once():
    found = broken(lambda tables: tables["flags"].update(cuda_ext=["amp_c"]))
    assert len(found) == len(set(found))


def change(table, key, **fields):
    """The change of one row; `key` finds it."""
    return lambda tables: row(tables, table, **key).update(fields)


CELL = {"torch": "2.4.1", "cuda": "12.4"}
OTHER = {"torch": "2.15.0", "cuda": "13.2"}
REF = {"commit": "5c8860f1dc79f9edc3c1ba4050fe841207834564"}
CASES = {
    "duplicates": [
        (lambda t: t["cell"].append(dict(row(t, "cell", **CELL), torch="2.4.0")),
         "The cell row torch 2.4 x CUDA 12.4 is there 2 times."),
        (lambda t: t["ref"].append(t["ref"][0]), "The ref row bf903a2d"),
        (lambda t: t["wheel"].append(t["wheel"][0]), "The wheel row torch 2.1 x CUDA 11.8"),
        (lambda t: t["toolkit"].append(t["toolkit"][0]), "The toolkit row 11.8"),
        (lambda t: t["os"].append(t["os"][0]), "The os row ubuntu20.04"),
    ],
    "wheels_exist": [
        (change("cell", CELL, cuda="12.9", image="12.9.2"), "no wheel row has this torch"),
        (change("cell", CELL, index=""), "field index must be cu124"),
        (change("cell", CELL, index="cu121"), "index cu121 is not this CUDA's, cu124 is"),
    ],
    "wheels_are_newest": [
        (change("wheel", CELL, patches="2.4.0 2.4.1 2.4.2"), "wheel torch 2.4.1 x CUDA 12.4"),
    ],
    "pypi_has_one_build": [(change("wheel", CELL, pypi=True), "torch 2.4.1: 2 rows say")],
    "images_fit": [
        (change("cell", CELL, image="12.6.3"), "image 12.6.3 is not one of CUDA 12.4 (12.4.1)"),
        (change("cell", CELL, os="ubuntu24.04"), "CUDA 12.4 has no image for ubuntu24.04"),
        (change("toolkit", {"cuda": "12.4"}, images="12.4.1 12.5.0"), "image 12.5.0 is of another"),
        (lambda t: t["toolkit"].remove(row(t, "toolkit", cuda="12.4")), "no toolkit row has this"),
    ],
    "systems_exist": [
        (change("cell", CELL, os="ubuntu26.04"), "no os row is called ubuntu26.04"),
        (change("toolkit", {"cuda": "13.4"}, os="ubuntu26.04"), "toolkit CUDA 13.4: no os row"),
    ],
    "archs_are_known": [
        (change("cell", OTHER, archs="7.0 9.0"),
         "architecture 7.0 (nvcc 13.2 cannot target it and torch 2.15.0+cu132 has no code for it)"),
        (change("cell", CELL, archs="10.0"), "architecture 10.0 (nvcc 12.4 cannot target it and"),
        (change("cell", OTHER, archs="11.0"),
         "architecture 11.0 (torch 2.15.0+cu132 has no code for it)"),
        (change("cell", CELL, archs="9.0f"), "architecture 9.0f (nvcc 12.4 cannot target it)"),
    ],
    "pythons_exist": [(change("cell", OTHER, python="3.10"), "no wheel for Python 3.10 (3.11, ")],
    "compilers_fit": [
        (change("cell", {"torch": "2.3.1"}, os="ubuntu24.04"), "nvcc 12.1 takes gcc up to 12"),
        (change("os", {"name": "ubuntu24.04"}, gcc="11.2"), "torch 2.15.0 need gcc 11.3"),
    ],
    "refs_fit": [
        (change("cell", CELL, ref="0" * 40), f"no ref row is {'0' * 40}"),
        (change("ref", REF, torch=">=2.3,<2.4"), "5c8860f1 does not fit: it fits torch >=2.3,<2.4"),
        (change("cell", OTHER, ref="bf903a2d519a5c6d2e5b4defb05784fdd9813e87"), "does not fit"),
        (change("ref", {**REF}, cuda=">=12.6"), "5c8860f1 does not fit: it fits CUDA >=12.6"),
        (change("ref", REF, python_min="3.11"), "5c8860f1 does not fit: it needs Python 3.11"),
    ],
    "evidence_has_a_source": [
        (change("cell", CELL, source=""), "evidence reported needs a source"),
        (change("cell", CELL, evidence="none"), "evidence none must not have a source"),
        (change("cell", OTHER, evidence="proven"), "evidence proven needs a source"),
    ],
    "extensions_are_known": [
        (lambda t: t["flags"].update(cuda_ext=["amp_c"]),
         "The table flags: amp_c is not an extension of cuda_ext"),
        (lambda t: t["flags"].update(xentropy=["amp_C"]),
         "amp_C is not an extension of xentropy"),
        (lambda t: row(t, "ref", **REF)["own_targets"].update(fmha={"11.8": "sm_80"}),
         "own_targets has fmha, which no flag builds"),
    ],
}  # fmt: skip


def test_every_check_has_a_matrix_that_breaks_it():
    assert set(CASES) == {one.__name__ for one in CHECKS}


@pytest.mark.parametrize(
    ("name", "alter", "said"),
    [(name, *case) for name, cases in CASES.items() for case in cases])
def test_one_changed_field_is_found_by_its_check(name, alter, said):
    tables = copy.deepcopy(SHIPPED)
    alter(tables)
    one = next(one for one in CHECKS if one.__name__ == name)
    findings = tuple(one(parse(tables)))
    assert any(said in finding for finding in findings), findings
    assert set(findings) <= set(broken(alter))
