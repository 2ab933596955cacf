"""The static level: a sound installation passes, and each fault has its own name."""

import subprocess
import sys
from dataclasses import replace

import pytest

from apexlab.verify.arch import Arch
from apexlab.verify.static import verify_site

NAMES = ("apex_C", "amp_C", "fused_dense_cuda")


@pytest.fixture
def site(maker, folder):
    return maker.healthy(folder, *NAMES)


def findings(report, *severities):
    return {found.code for found in report.findings
            if found.severity in (severities or ("error",))}


def judged(site, *require, **more):
    return verify_site(site, require=require or NAMES, **more)


def test_a_sound_installation_is_ok(site):
    report = judged(site)
    assert (report.verdict, report.exit_code, findings(report)) == ("ok", 0, set())
    assert [one.status for one in report.extensions if one.expected] == ["present"] * 3


def test_without_a_record_the_core_profile_is_expected(maker, site):
    report = verify_site(site)
    assert report.exit_code == 1
    absent = {one.name for one in report.extensions if one.status == "absent"}
    assert len(absent) == 9 and "fused_adam_cuda" not in absent
    optional = next(one for one in report.extensions if one.name == "fused_adam_cuda")
    assert optional.status == "not-requested" and optional.findings[0].severity == "info"


def test_fused_adam_cuda_is_expected_when_the_record_asked_for_it(site, record_of):
    record = record_of(site, *NAMES, requested=(*NAMES, "fused_adam_cuda"))
    report = verify_site(site, record)
    assert findings(report) == {"not-installed"}
    assert report.errors[0].extensions == ("fused_adam_cuda",)


def test_a_python_only_build_is_one_failure(maker, folder):
    maker.healthy(folder)
    report = verify_site(folder)
    assert [found.code for found in report.errors] == ["python-only"]
    assert "0 of 12" in report.errors[0].message


def test_no_apex_at_all_is_one_failure(maker, folder):
    maker.torch(folder)
    assert findings(verify_site(folder)) == {"apex-missing"}


def test_the_web_package_of_the_same_name_is_told_apart(maker, folder):
    maker.healthy(folder)
    (folder / "apex-0.9.10.dev0.dist-info").mkdir()
    report = verify_site(folder)
    assert findings(report) == {"wrong-package"}
    assert "0.9.10.dev0" in report.errors[0].message


def test_no_torch_is_an_error_of_the_installation(maker, folder):
    maker.healthy(folder, *NAMES)
    (folder / "torch/version.py").unlink()
    assert findings(judged(folder)) == {"torch-missing"}


# One broken extension each.

def only(site, maker, **more):
    maker.extension(site, "amp_C", **{"code": maker.fatbin("sm_90"), **more})
    return judged(site)


def test_a_symbol_of_another_torch(site, maker):
    report = only(site, maker, calls=("_ZN3c104cuda9SetDeviceEa", "forgotten"))
    assert findings(report) == {"torch-abi-mismatch"}
    assert "c10::cuda::SetDevice(signed char)" in report.errors[0].message
    assert "and 1 more" in report.errors[0].message
    assert "make image TORCH=2.6 CUDA=12.4" in report.errors[0].fix


def test_a_symbol_of_nobody(site, maker):
    assert findings(only(site, maker, calls=("forgotten",))) == {"undefined-symbol"}


def test_a_missing_cuda_runtime(site, maker, tmp_path):
    gone = maker.named(tmp_path, "libcudart.so.77", "f")
    report = only(site, maker, needs=(gone,))
    assert findings(report) == {"cudart-missing"}
    assert "libcudart.so.77" in report.errors[0].message


def test_two_cuda_runtimes(site, maker, monkeypatch, tmp_path):
    other = maker.named(tmp_path, "libcudart.so.13", "f")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert findings(only(site, maker, needs=(other,))) == {"cuda-major-mismatch"}


@pytest.mark.parametrize(("library", "code"), [
    ("libcuda.so.1", "driver-lib-missing"), ("libcudnn.so.9", "library-missing")])
def test_other_missing_libraries(site, maker, tmp_path, library, code):
    assert findings(only(site, maker, needs=(maker.named(tmp_path, library, "f"),))) == {code}


def test_a_cpu_torch_under_a_cuda_build(site, maker):
    c10_cuda = site / "torch/lib/libc10_cuda.so"
    maker.extension(site, "amp_C", code=maker.fatbin("sm_90"), needs=(c10_cuda,))
    c10_cuda.unlink()
    (site / "torch/version.py").write_text("__version__ = '2.6.0+cpu'\ncuda = None\n")
    report = judged(site)
    assert findings(report) == {"torch-cpu-only"}


def test_no_device_code(site, maker):
    assert findings(only(site, maker, code=None)) == {"no-device-code"}


def test_no_kernels_where_kernels_belong(site, maker):
    assert findings(only(site, maker, code=maker.fatbin("sm_90", kernels=()))) == {"no-kernels"}


def test_device_code_that_cannot_be_read_is_not_called_absent(site, maker):
    report = only(site, maker, code=b"\x01" * 64)
    assert findings(report) == {"unreadable-fatbin"}


def test_an_old_architecture_does_not_run_on_a_new_gpu(site, maker):
    maker.extension(site, "amp_C", code=maker.fatbin("sm_75"))
    report = judged(site, arch=Arch(9, 0))
    assert findings(report) == {"no-kernel-image"}
    assert "sm_75" in report.errors[0].message and "9.0" in report.errors[0].message


def test_ptx_alone_is_a_warning(site, maker):
    maker.extension(site, "amp_C", code=maker.fatbin("sm_75", "compute_75"))
    report = judged(site, arch=Arch(9, 0))
    assert report.exit_code == 0 and findings(report, "warning") == {"jit-only"}


def test_a_file_for_another_python(site, maker):
    (site / next(site.glob("amp_C*.so")).name).rename(
        site / "amp_C.cpython-39-x86_64-linux-gnu.so")
    report = judged(site)
    assert findings(report) == {"wrong-python-abi"}
    assert "Python 3.9" in report.errors[0].message


def test_a_renamed_file(site, maker):
    report = only(site, maker, init="other")
    assert findings(report) == {"not-a-module"}
    assert "only PyInit_other" in report.errors[0].message


@pytest.mark.parametrize("content", [b"not ELF", b""])
def test_a_file_that_is_something_else(site, content):
    next(site.glob("amp_C*.so")).write_bytes(content)
    assert findings(judged(site)) == {"wrong-file"}


def test_a_truncated_file(site):
    path = next(site.glob("amp_C*.so"))
    path.write_bytes(path.read_bytes()[:-100])
    report = judged(site)
    assert findings(report) == {"wrong-file"} and "truncated" in report.errors[0].message


def test_a_file_for_another_machine(site):
    path = next(site.glob("amp_C*.so"))
    data = bytearray(path.read_bytes())
    data[18] = 183  # aarch64
    path.write_bytes(data)
    report = judged(site)
    assert findings(report) == {"wrong-machine"} and "aarch64" in report.errors[0].message


def test_one_cause_in_many_extensions_is_said_once(site, maker):
    for name in ("amp_C", "syncbn"):
        maker.extension(site, name, code=maker.fatbin("sm_90"), calls=("_ZN2at4goneEv",))
    report = judged(site, *NAMES, "syncbn")
    assert [found.code for found in report.errors] == ["torch-abi-mismatch"]
    assert report.errors[0].extensions == ("amp_C", "syncbn")
    assert "syncbn" in report.errors[0].message


# Against the record.

def test_the_record_in_the_dist_info_is_found(site, record_of):
    info = site / "apex-0.1.dist-info"
    info.mkdir()
    record = record_of(site, *NAMES)
    (info / "apexlab-record.json").write_text(record.to_json())
    report = verify_site(site)
    assert report.record == record and report.exit_code == 0
    assert report.record_path == str(info / "apexlab-record.json")


def test_a_file_that_was_exchanged(site, maker, record_of):
    record = record_of(site, *NAMES)
    maker.extension(site, "amp_C", code=maker.fatbin("sm_90", kernels=("_Z5otherv",)))
    report = verify_site(site, record)
    assert findings(report) == {"tampered"} and report.errors[0].extensions == ("amp_C",)


def test_a_file_that_was_built_and_is_gone_was_lost_later(site, record_of):
    record = record_of(site, *NAMES, requested=(*NAMES, "syncbn"))
    next(site.glob("amp_C*.so")).unlink()
    fixes = {one.name: one.findings[0].fix for one in verify_site(site, record).extensions
             if one.status == "absent"}
    assert fixes["amp_C"].startswith("It was built, and lost later: install the wheel again")
    assert fixes["syncbn"].startswith("The build dropped it: make image TORCH=2.6 CUDA=12.4")


def test_a_torch_that_was_replaced_later(site, maker, record_of):
    maker.extension(site, "amp_C", code=maker.fatbin("sm_90"), calls=("_ZN3c104cuda9SetDeviceEa",))
    record = record_of(site, *NAMES, torch="2.4.1+cu124")
    report = verify_site(site, record)
    assert findings(report) == {"torch-replaced"}
    message, fix = report.errors[0].message, report.errors[0].fix
    assert "2.4.1+cu124" in message and "2.6.0+cu124" in message
    assert "amp_C needs c10::cuda::SetDevice(signed char)" in message
    assert ("pip install torch==2.4.1+cu124 --index-url https://download.pytorch.org/whl/cu124"
            in fix)
    assert "make image TORCH=2.6 CUDA=12.4" in fix


def test_a_record_of_another_torch_is_a_failure_by_itself(site, record_of):
    record = record_of(site, *NAMES, torch="2.6.0+cu126")
    assert findings(verify_site(site, record)) == {"torch-replaced"}


def test_code_for_less_than_the_record_has(site, record_of):
    record = record_of(site, *NAMES)
    built = tuple(replace(one, targets=("sm_80", "sm_90"), sha256="") if one.name == "amp_C"
                  else one for one in record.built)
    report = verify_site(site, replace(record, built=built))
    assert findings(report) == {"fewer-architectures"}


def test_targets_of_its_own_are_no_fault_when_the_record_has_them(maker, folder, record_of):
    maker.healthy(folder, "amp_C", targets=("sm_80",))
    record = record_of(folder, "amp_C", archs=("7.5", "9.0"))
    assert findings(verify_site(folder, record)) == set()


# The other layout: libraries without PyInit, loaded by shims.

def test_the_layout_with_shims(maker, folder):
    maker.torch(folder)
    shims = folder / "apex/_extensions"
    shims.mkdir(parents=True)
    (folder / "apex/__init__.py").touch()
    for name in ("amp_C", "apex_C", "syncbn"):
        (shims / f"{name}.py").write_text("")
    maker.extension(folder, "amp_C", file="_amp_C.abi3.so", init="none",
                    code=maker.fatbin("sm_90"))
    report = verify_site(folder, require=("amp_C", "apex_C", "syncbn"))
    status = {one.name: one.status for one in report.extensions}
    assert (status["amp_C"], status["apex_C"], status["syncbn"]) == ("present", "present", "absent")
    assert findings(report) == {"not-installed"}
    assert "python-code" in findings(report, "info")


def test_nothing_is_imported(site):
    (site / "torch/__init__.py").write_text("raise SystemExit('torch was imported')")
    script = ("import sys; from pathlib import Path; "
              "from apexlab.verify.static import verify_site; "
              "report = verify_site(Path(sys.argv[1]), require=('amp_C',)); "
              "heavy = {'torch', 'numpy', 'rich', 'subprocess'} & set(sys.modules); "
              "print(report.exit_code, sorted(heavy - {'subprocess'}))")
    done = subprocess.run([sys.executable, "-c", script, site], capture_output=True, text=True)
    assert done.stdout.strip() == "0 []", done.stderr
