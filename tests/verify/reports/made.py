"""Reports of every kind, as objects: made up here, or read from the JSON files beside this one.

Loaded with runpy by the tests of the outputs. The figures are made up, too.
"""

from __future__ import annotations

import json
import types
import typing
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

from apexlab.verify.extensions import EXTENSIONS
from apexlab.verify.record import Built, Record
from apexlab.verify.report import (
    Device,
    Environment,
    ExtensionReport,
    Finding,
    Kernel,
    ModelReport,
    Numerics,
    Proof,
    Report,
    StepKernel,
    Used,
)

FILES = sorted(Path(__file__).parent.glob("*.json"))
# Whoever prints one of these raw lets a binary write into the terminal, the page or the log.
HOSTILE = "</td><script>alert(1)</script>\x1b[2J\r\n::error::x|`*_&amp;\x00\ud800\ufffe]]>"


def read(path: Path) -> Report:
    """The report in a JSON file."""
    return _value(Report, json.loads(path.read_text(encoding="utf-8")))


def _value(kind, data):
    """`data` as a value of the annotated type `kind`."""
    if data is None or typing.get_origin(kind) is dict:
        return data
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return _value(next(one for one in typing.get_args(kind) if one is not type(None)), data)
    if typing.get_origin(kind) is tuple:
        return tuple(_value(typing.get_args(kind)[0], one) for one in data)
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return kind(**{one.name: _value(hints[one.name], data[one.name]) for one in fields(kind)
                       if one.name in data})
    return data


def proof(api="FusedAdam step", dtype="fp32", error=0.9, count=1, *, verdict="proven",
          device="cuda:0", grade="kernel", condition="", own=True, name="", message=""):
    kernel = Kernel(name or f"void kernel_of<{api.replace(' ', '_')}>(float*)", count, own)
    return Proof(api, device, grade, condition, (kernel,) if count else (),
                 Numerics(dtype, error, 8.0), verdict, message)


NORMS = tuple(
    proof(f"{api} {phase}", dtype, error, count)
    for api in ("FusedLayerNorm", "FusedRMSNorm") for dtype in ("bf16", "fp16", "fp32")
    for phase, error, count in (("forward", 0.5, 1), ("backward", 1.25, 3)))
OF = {
    "amp_C": (proof(count=3), proof("amp_C.multi_tensor_scale", error=0.0)),
    "fused_layer_norm_cuda": NORMS,
    "apex_C": (proof("apex_C.flatten", "fp32", 0.0, 0, grade="host"),),
    "fused_dense_cuda": (proof("FusedDense forward", "fp16", 0.7, 1, grade="call", own=False),),
}


def extension(one, proofs=None, targets=("sm_90",), **more):
    kernels = {"kernels": 42, "empty": 0}.get(one.device_code)
    given = {
        "name": one.name, "expected": True, "why": "the build record says so", "status": "proven",
        "path": f"/site/{one.name}.so", "sha256": "ab" * 32,
        "targets": () if kernels is None else targets, "kernels": kernels,
        "cuda_major": None if kernels is None else 13, "cxx_abi": "new", "needed": ("libc10.so",),
        "proofs": OF.get(one.name, (proof(f"{one.name}.forward"),)) if proofs is None else proofs,
    }  # fmt: skip
    return ExtensionReport(**{**given, **more})


def record():
    return Record(
        source="apex", apex={"commit": "6424da3b" + "0" * 32}, torch={"version": "2.11.0+cu130"},
        toolkit={"nvcc": "13.0.88"}, python={"tag": "cp312"}, archs=("9.0",), profile="core",
        requested=("amp_C",), built=(Built("amp_C", "amp_C.so", 1, "ab" * 32, ("sm_90",)),))


def proven(**more) -> Report:
    given = {
        "verdict": "proven", "exit_code": 0, "level_asked": "run", "level_reached": "run",
        "kind": "site", "subject": "/opt/venv", "record_path": "/opt/apexlab/record.json",
        "environment": Environment("3.12", "2.11.0+cu130", "13.0", "580.159.04",
                                   (Device("NVIDIA H200", "9.0"),), ("profiler", "interposer")),
        "record": record(), "extensions": tuple(map(extension, EXTENSIONS)), "seconds": 6.123,
        "findings": (Finding("compiled-norms", "info", "Inside torch.compile FusedLayerNorm uses "
                             "PyTorch's code, so a compiled model does not run it.", ""),),
    }  # fmt: skip
    return Report(**{**given, **more})


def changed(report: Report, name: str, **more) -> Report:
    """The report with one extension changed."""
    return replace(report, extensions=tuple(
        replace(one, **more) if one.name == name else one for one in report.extensions))


def fallback() -> Report:
    bad = tuple(proof(f"FusedRMSNorm {phase}", "bf16", 0.6, 1, verdict="fallback", own=False,
                      name="void at::native::rms_norm_kernel<c10::BFloat16>(int)")
                for phase in ("forward", "backward"))
    found = Finding("fallback", "fallback", "FusedRMSNorm forward in bf16 ran without "
                    "fused_layer_norm_cuda on cuda:0. What ran is: rms_norm_kernel.",
                    "Look for a second apex.", ("fused_layer_norm_cuda",))
    report = changed(proven(), "fused_layer_norm_cuda", proofs=(*NORMS[:6], *bad), status="loaded",
                     findings=(found,))
    return replace(report, verdict="fallback", exit_code=5, findings=(found, *report.findings))


def broken() -> Report:
    wrong = proof("FusedAdam step", error=812.0, verdict="wrong-numbers")
    found = Finding("wrong-numbers", "error", "FusedAdam step in fp32 computes wrong numbers on "
                    "cuda:0: its error is 812, the limit 8.", "Build again: make image.",
                    ("amp_C",))
    absent = Finding("not-installed", "error", "syncbn is absent, although the record says that "
                     "it was built.", "Install the wheel again.", ("syncbn",))
    report = changed(proven(), "amp_C", proofs=(wrong,), status="broken", findings=(found,))
    report = changed(report, "syncbn", proofs=(), status="absent", path=None, targets=(),
                     sha256=None, kernels=None, findings=(absent,))
    return replace(report, verdict="broken", exit_code=1, findings=(found, absent))


def no_gpu(**more) -> Report:
    """Everything up to load is in order, and run was asked for."""
    found = Finding("no-gpu", "incomplete", "No GPU is visible, so it was not checked that the "
                    "kernels run; everything up to load is ok.", "Run it where there is one.")
    return replace(
        proven(), verdict="incomplete", exit_code=4, level_reached="load", findings=(found,),
        environment=Environment("3.12", "2.11.0+cu130", "13.0"),
        extensions=tuple(extension(one, (), status="loaded") for one in EXTENSIONS), **more)


def static() -> Report:
    return replace(no_gpu(), verdict="ok", exit_code=0, level_asked="static", findings=(),
                   level_reached="static", extensions=tuple(
                       extension(one, (), status="present") for one in EXTENSIONS))


def two_gpus() -> Report:
    """The norms are blind on the second one."""
    report = proven()
    both = tuple(replace(one, proofs=(*one.proofs, *(
        replace(each, device="cuda:1") for each in one.proofs))) for one in report.extensions)
    h200 = Device("NVIDIA H200", "9.0")
    report = replace(report, extensions=both, verdict="incomplete", exit_code=4,
                     environment=replace(report.environment, devices=(h200, h200)))
    blind = tuple(replace(one, device="cuda:1", verdict="blind", kernels=()) for one in NORMS)
    found = Finding("instrument-blind", "incomplete", "No instrument sees which kernels "
                    "fused_layer_norm_cuda launches here, so nothing is proven.",
                    "Allow profiling.", ("fused_layer_norm_cuda",))
    report = changed(report, "fused_layer_norm_cuda", proofs=(*NORMS, *blind), status="loaded",
                     findings=(found,))
    return replace(report, findings=(found,))


def with_model(apex: bool = True) -> Report:
    ours = StepKernel("void cuApplyLayerNorm<float, float, float>(float*)", 24,
                      "fused_layer_norm_cuda", 250.0)
    gemms = tuple(StepKernel(f"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize{n}", n, None,
                             10.0 * n) for n in range(1, 15))
    model = ModelReport(
        "train:factory", "cuda:0",
        (Used("apex.normalization.fused_layer_norm.FusedLayerNorm", 24, True),
         Used("transformers.models.t5.modeling_t5.T5LayerNorm", 1, False)),
        Used("torch.optim.adamw.AdamW", 1, False), (ours, *gemms), 250.0 / 1300)
    if not apex:
        model = replace(model, norms=model.norms[1:], kernels=(), apex_share=None, optimizer=None)
    return proven(model=model)


def hostile() -> Report:
    """Every text that may come from a hostile file is hostile."""
    found = Finding("crash", "error", HOSTILE, HOSTILE, (HOSTILE,))
    bad = replace(proof(HOSTILE, name=HOSTILE, verdict="error", message=HOSTILE, device=HOSTILE,
                        condition=HOSTILE), kernels=(Kernel(HOSTILE, 1, False, (HOSTILE,)),))
    one = extension(EXTENSIONS[1], (bad,), name=HOSTILE, path=HOSTILE, why=HOSTILE,
                    targets=(HOSTILE,), needed=(HOSTILE,), status="broken", findings=(found,))
    model = ModelReport(HOSTILE, HOSTILE, (Used(HOSTILE, 1, False),), Used(HOSTILE, 1, False),
                        (StepKernel(HOSTILE, 1, None, 1.0),), 0.0)
    return proven(
        verdict="broken", exit_code=1, subject=HOSTILE, findings=(found,), extensions=(one,),
        model=model, record_path=HOSTILE,
        record=replace(record(), source=HOSTILE, images={HOSTILE: HOSTILE}),
        environment=Environment(HOSTILE, HOSTILE, HOSTILE, HOSTILE, (Device(HOSTILE, "9.0"),)))


def nothing() -> Report:
    """Apex is not installed at all."""
    found = Finding("apex-missing", "error", "Apex is not installed in this environment: neither "
                    "the package nor an extension is there.", "Install the wheel.")
    return replace(no_gpu(), verdict="broken", exit_code=1, findings=(found,), record=None,
                   record_path=None, extensions=(), level_reached="static", seconds=None)


EVERY = {made.__name__: made for made in (
    proven, fallback, broken, no_gpu, static, two_gpus, with_model, hostile, nothing)}
EVERY |= {path.stem: (lambda path=path: read(path)) for path in FILES}
