"""The shipped matrix, and what loading a broken one says."""

import copy

import pytest

from apexlab.build.errors import MatrixError, MatrixUnreadableError
from apexlab.build.matrix import DEFAULT_PATH, load, parse, read
from apexlab.build.rows import numbers
from apexlab.verify.arch import Arch, parse_archs
from apexlab.verify.extensions import EXTENSIONS

PAIRS = {
    "12.1": ["2.3.1", "2.4.1"], "12.4": ["2.4.1", "2.5.1", "2.6.0"],
    "12.6": ["2.6.0", "2.7.1", "2.8.0"], "12.8": ["2.7.1", "2.8.0", "2.9.1", "2.10.0"],
    "12.9": ["2.8.0", "2.9.1", "2.11.0"],
    "13.0": ["2.9.1", "2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1"], "13.2": ["2.15.0"],
}  # fmt: skip


@pytest.fixture
def tables():
    return copy.deepcopy(read(DEFAULT_PATH))


def test_the_shipped_matrix_has_exactly_the_promised_cells():
    cells = load().cells
    assert {cuda: [c.torch for c in cells if c.cuda == cuda] for cuda in PAIRS} == PAIRS
    assert len(cells) == sum(map(len, PAIRS.values())) == 22


def test_each_cell_has_the_default_architectures_that_toolkit_and_torch_know():
    matrix = load()
    old, new = parse_archs("7.0 7.5 8.0 8.6 9.0+PTX"), parse_archs("7.5 8.0 8.6 9.0 10.0 12.0+PTX")
    for cell in matrix.cells:
        default = old if numbers(cell.cuda) <= (12, 6) else new
        held = {arch.sm for arch in matrix.wheel(cell.torch, cell.cuda).archs}
        assert cell.archs == tuple(arch for arch in default if arch.sm in held), cell


def test_each_cell_takes_the_python_of_its_system():
    matrix = load()
    assert all(cell.python == matrix.system(cell.os).python for cell in matrix.cells)


def test_no_cell_claims_more_than_a_report_since_no_record_was_written_yet():
    for cell in load().cells:
        assert cell.evidence in ("none", "reported")
        assert bool(cell.source) == (cell.evidence == "reported")


def test_refs_are_those_that_were_agreed_on():
    for cell in load().cells:
        if numbers(cell.torch) < (2, 9):
            assert cell.ref.startswith("5c8860f1")
        if numbers(cell.cuda) >= (13,) and numbers(cell.torch) >= (2, 11):
            assert cell.ref.startswith("6424da3b")


def test_core_is_the_thirteen_extensions_that_verify_knows():
    for ref in load().refs:
        names = ref.extensions(ref.profile_flags("core"), "12.4")
        assert names == tuple(extension.name for extension in EXTENSIONS)


def test_full_is_core_and_all_else_that_the_ref_has():
    for ref in load().refs:
        full = ref.extensions(ref.profile_flags("full"), "13.0")
        assert set(full) > set(ref.extensions(ref.profile_flags("core"), "13.0"))
        assert len(full) == len(set(full))


def test_a_ref_has_the_flags_of_the_table_but_those_it_is_without():
    table = set(read(DEFAULT_PATH)["flags"])
    old, new = load().refs[0], load().newest_ref
    assert set(old.flags) == table
    assert table - set(new.flags) == {"gpu_direct_storage", "fmha", "fast_multihead_attn"}


def test_an_extension_with_its_own_targets_has_those_of_the_toolkit():
    ref = load().ref("5c8860f1dc79f9edc3c1ba4050fe841207834564")
    assert ref.targets("amp_C", "12.4") is None
    assert ref.targets("group_norm_v2_cuda", "12.6") == ("compute_90",)
    assert ref.targets("group_norm_v2_cuda", "13.0") == ("sm_90", "sm_100", "compute_120")
    assert ref.targets("group_norm_v2_cuda", "12.1") == ()


def test_an_extension_that_this_cuda_cannot_build_is_not_expected():
    ref = load().ref("5c8860f1dc79f9edc3c1ba4050fe841207834564")
    assert "group_norm_v2_cuda" in ref.extensions(("group_norm",), "12.4")
    assert ref.extensions(("group_norm",), "12.1") == ("group_norm_cuda",)


def test_versions_are_ordered_as_numbers():
    assert max("2.9.1", "2.10.0", key=numbers) == "2.10.0"


def test_a_wheel_is_found_by_minor_and_by_each_patch():
    matrix = load()
    assert matrix.wheel("2.4", "12.4") is matrix.wheel("2.4.0", "12.4") is not None
    assert matrix.wheel("2.4.7", "12.4") is None


def test_the_newest_torch_has_c_plus_plus_20():
    matrix = load()
    for wheel in matrix.wheels:
        assert wheel.cxx_std == ("c++20" if numbers(wheel.torch) >= (2, 12) else "c++17"), wheel
    assert Arch(7, 0) not in matrix.toolkit("13.0").archs


def test_an_absent_matrix_is_one_paragraph_and_exit_4(tmp_path):
    with pytest.raises(MatrixUnreadableError, match="cannot be read: No such file") as error:
        load(tmp_path / "matrix.toml")
    assert error.value.exit_code == 4


@pytest.mark.parametrize("content", [
    b"cell = [", b"\xff\xfe\x00", b"a = 1\na = 2\n", b"a = " + b"[" * 100_000])
def test_what_is_not_toml_is_named_as_that(tmp_path, content):
    path = tmp_path / "matrix.toml"
    path.write_bytes(content)
    with pytest.raises(MatrixUnreadableError, match="is not TOML"):
        load(path)


ROW_22 = "cell 22 (torch 2.15.0, cuda 13.2), "


@pytest.mark.parametrize(("old", "new", "said"), [
    ('"ubuntu24.04", python = "3.12", index', '"U", python = "3.12", index', ROW_22 + "field os: "),
    ('os = "ubuntu24.04", python = "3.12", index', 'colour = "red", python = "3.12", index',
     "cell 22 (torch 2.15.0, cuda 13.2): "),
    ('style = "env"', 'style = "pip"', "field style: 'pip' is not one of"),
    ("5c8860f1dc79f9edc3c1ba4050fe841207834564", "5c8860f1", "(commit 5c8860f1), field commit"),
    ('name = "debian12",   ', "", "os 4: 'name' is a required property"),
    ('evidence = "reported"', 'evidence = "sure"', "field evidence: 'sure'"),
    ('bnp = ["bnp"]', 'bnp = ["b n p"]', "table flags.bnp.0: 'b n p'"),
    ("[flags]\n", "[flags]\nx = 1\n", "table flags.x: 1 is not of type 'array'"),
    ("without = []", "without = 1", "field without: 1 is not of type 'array'"),
    ('"sm_100"', '"sm_1"', "field own_targets.group_norm_v2_cuda.12.8: 'sm_1'"),
    ("toolkit = [", "toolkits = [", "the file: "),
])  # fmt: skip
def test_a_broken_schema_names_file_row_and_field(tmp_path, old, new, said):
    text = DEFAULT_PATH.read_text()
    assert old in text
    path = tmp_path / "matrix.toml"
    path.write_text(text.replace(old, new))
    with pytest.raises(MatrixError) as error:
        load(path)
    message = str(error.value)
    assert said in message and str(path) in message and "\n" not in message
    assert error.value.exit_code == 1


@pytest.mark.parametrize(("table", "field", "value", "said"), [
    ("cell", "archs", "9.0 9.0", "cell 1 (torch 2.3.1, cuda 12.1): The architecture list"),
    ("ref", "torch", "about 2", "ref 1 (commit bf903a2d519a5c6d2e5b4defb05784fdd9813e87): "),
    ("ref", "without", ["fhma"], "Field without names fhma, which is no flag."),
])  # fmt: skip
def test_a_value_that_only_its_parser_refuses_is_named(tables, table, field, value, said):
    tables[table][0][field] = value
    with pytest.raises(MatrixError) as error:
        parse(tables)
    assert said in str(error.value)


def test_a_matrix_that_contradicts_itself_is_refused_with_all_findings(tmp_path):
    text = DEFAULT_PATH.read_text()
    text = text.replace('torch = "2.3.1",  cuda = "12.1", image = "12.1.1", os = "ubuntu22.04"',
                        'torch = "2.3.1",  cuda = "12.1", image = "12.4.1", os = "ubuntu24.04"')
    path = tmp_path / "matrix.toml"
    path.write_text(text)
    with pytest.raises(MatrixError) as error:
        load(path)
    message = str(error.value)
    assert "cell torch 2.3.1 x CUDA 12.1: image 12.4.1 is not one of CUDA 12.1" in message
    assert "ubuntu24.04 has gcc 13.3, and nvcc 12.1 takes gcc up to 12" in message
    assert "\n" not in message
