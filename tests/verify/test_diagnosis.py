"""The table of what verify can say: complete, tested, generated; and one cause is one finding."""

import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from apexlab.verify import extensions, generate, markers
from apexlab.verify.arch import Arch
from apexlab.verify.check import Options, check
from apexlab.verify.errors import CannotError, ProblemError
from apexlab.verify.findings import KINDS, LOADER_DECIDES, NOT_LOADABLE, VIOLENT
from apexlab.verify.report import LEVELS
from apexlab.verify.site import folder_site

PAGE = Path(__file__).parents[2] / "verify" / "README.md"
CORE = [one.name for one in extensions.EXTENSIONS if one.name != "fused_adam_cuda"]


def test_every_row_is_complete():
    assert len({kind.code for kind in KINDS}) == len(KINDS)
    for kind in KINDS:
        assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", kind.code)
        assert kind.level in LEVELS
        assert kind.fix or kind.severity == "info", f"{kind.code} names no way out"
        values = defaultdict(lambda: 7)
        assert "{" not in kind.message.format_map(values) + kind.fix.format_map(values)


def test_every_row_is_spoken_of_in_a_test():
    # Whether the test is a good one is for people; that there is none is seen here.
    here = Path(__file__)
    text = "".join(path.read_text() for path in here.parent.rglob("*.py") if path != here)
    assert [kind.code for kind in KINDS if f'"{kind.code}"' not in text] == []


def test_the_lists_of_codes_name_rows():
    assert {kind.code for kind in KINDS} >= LOADER_DECIDES | NOT_LOADABLE | VIOLENT


# The page.

def test_the_page_has_not_drifted():
    text = PAGE.read_text(encoding="utf-8")
    assert markers.replaced(text, generate.sections()) == text, (
        "verify/README.md differs from the tables: run make generate")


def test_the_page_has_each_code_with_its_exit_code():
    rows = dict(re.findall(r"^\| `([a-z0-9-]+)` \| \w+ \| (\d) ", PAGE.read_text(), re.M))
    assert set(rows) == {kind.code for kind in KINDS}
    assert (rows["crash"], rows["no-gpu"], rows["no-record"]) == ("1", "4", "0")


def test_a_drifted_page_is_seen_and_then_rewritten(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("above\n<!-- a -->\n| old |\n<!-- /a -->\n<!-- b --><!-- /b -->\nbelow\n")
    sections = {"a": "| new |", "b": "more"}
    assert markers.rewrite(page, sections) and not markers.rewrite(page, sections)
    assert page.read_text() == ("above\n<!-- a -->\n| new |\n<!-- /a -->\n"
                                "<!-- b -->\nmore\n<!-- /b -->\nbelow\n")
    assert [entry.name for entry in tmp_path.iterdir()] == ["README.md"]


@pytest.mark.parametrize("text", ["", "<!-- a -->", "<!-- /a --> <!-- a -->"])
def test_a_page_without_its_markers_is_refused_and_left_alone(tmp_path, text):
    page = tmp_path / "README.md"
    page.write_text(text)
    with pytest.raises(ProblemError, match="no place for what is generated"):
        markers.rewrite(page, {"a": "new"})
    assert page.read_text() == text


def test_a_page_that_is_absent_or_no_text_is_said(tmp_path):
    (tmp_path / "binary.md").write_bytes(b"\xff\xfe")
    for name in ("no.md", "binary.md"):
        with pytest.raises(CannotError, match="cannot be read"):
            markers.rewrite(tmp_path / name, {})


# One failure with one cause is one finding, and not twelve.

@pytest.fixture
def core(maker, folder):
    """All twelve core extensions, in order."""
    maker.healthy(folder, *CORE)
    for name in ("fused_dense_cuda", "fused_weight_gradient_mlp_cuda"):
        maker.extension(folder, name, code=maker.fatbin("sm_90", kernels=()),
                        calls=("_ZN3c105ErrorEv",), needs=(folder / "torch/lib/libc10.so",))
    return folder


def causes(folder, **more):
    report = check(folder_site(folder), Options(**more))
    return {one.code: len(one.extensions) for one in report.findings
            if one.severity in ("error", "incomplete")}


@pytest.mark.parametrize("level", ["static", "load"])
def test_a_sound_core_has_nothing_to_say(core, level):
    assert causes(core, level=level) == {}


def no_libraries(folder):
    for path in folder.glob("*.so"):
        path.unlink()


def no_cuda_ext(folder):
    for path in folder.glob("*.so"):
        if not path.name.startswith("apex_C"):
            path.unlink()


def other_python(folder):
    for path in folder.glob("*.so"):
        path.rename(path.with_name(re.sub(r"cpython-\d+", "cpython-39", path.name)))


def cpu_torch(folder):
    import shutil
    for path in folder.glob("torch/lib/lib*cuda*"):
        path.unlink()
    shutil.rmtree(folder / "nvidia")
    (folder / "torch/version.py").write_text("__version__ = '2.6.0+cpu'\ncuda = None\n")


def cut(folder):
    for path in folder.glob("*.so"):
        path.write_bytes(path.read_bytes()[:1000])


@pytest.mark.parametrize("level", ["static", "load"])
@pytest.mark.parametrize(("break_", "code", "count"), [
    (no_libraries, "python-only", 0), (no_cuda_ext, "flag-lost", 11),
    (other_python, "wrong-python-abi", 12), (cut, "wrong-file", 12),
])
def test_one_cause_of_files_is_one_finding(core, level, break_, code, count):
    break_(core)
    assert causes(core, level=level) == {code: count}


@pytest.mark.parametrize("level", ["static", "load"])
@pytest.mark.parametrize(("calls", "needs", "code"), [
    (("_ZN3c104cuda9SetDeviceEa", "_ZN2at4goneEv"), (), "torch-abi-mismatch"),
    (("old_abi",), (), "cxx-abi-mismatch"),
    (("forgotten", "forgotten_too"), (), "undefined-symbol"),
    ((), ("libcudart.so.77",), "cudart-missing"),
    ((), ("libcudnn.so.9",), "library-missing"),
])
def test_one_cause_of_the_loader_is_one_finding(
        core, maker, tmp_path, level, calls, needs, code):
    calls = tuple(getattr(maker, call, call) for call in calls)
    needs = tuple(maker.named(tmp_path / "gone", library, "f") for library in needs)
    for name in CORE:
        maker.extension(core, name, calls=calls, needs=needs,
                        code=None if name == "apex_C" else maker.fatbin("sm_90"))
    # Apex's own modules stumble over the same, and say nothing new.
    for name in ("optimizers", "normalization", "multi_tensor_apply", "mlp"):
        (core / "apex" / name).mkdir()
        (core / "apex" / name / "__init__.py").write_text(
            "import amp_C, fused_layer_norm_cuda, mlp_cuda")
    assert causes(core, level=level) == {code: 12}


@pytest.mark.parametrize("level", ["static", "load"])
def test_a_cpu_torch_is_one_finding(core, maker, level):
    for name in CORE[1:]:
        maker.extension(core, name, code=maker.fatbin("sm_90"),
                        needs=(core / "torch/lib/libc10_cuda.so",
                               core / "nvidia/cu12/lib/libcudart.so.12"))
    cpu_torch(core)
    assert causes(core, level=level) == {"torch-cpu-only": 11}


@pytest.mark.parametrize("level", ["static", "load"])
def test_a_replaced_torch_is_one_finding(core, maker, record_of, level):
    record = record_of(core, *CORE, torch="2.4.1+cu124")
    for name in CORE:
        maker.extension(core, name, code=None if name == "apex_C" else maker.fatbin("sm_90"),
                        calls=("_ZN2at4goneEv",))
    subject = replace(folder_site(core), record=replace(record, built=()))
    report = check(subject, Options(level=level))
    assert [one.code for one in report.errors] == ["torch-replaced"]
    assert "needs at::gone()" in report.errors[0].message


def test_a_gpu_without_code_for_it_is_one_finding(core):
    # The two whose work is cuBLAS's, and the one without device code, run anywhere.
    assert causes(core, arch=Arch(7, 5)) == {"no-kernel-image": 9}
