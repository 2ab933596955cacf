"""A made-up run of single operations, and the result that follows from it.

Every figure here is invented: no operation was measured.
"""

from __future__ import annotations

import random

import made_result

from apexlab.bench.ops.cases import OPS, cases
from apexlab.bench.ops.providers import left_out, providers
from apexlab.bench.ops.questions import CONTROL
from apexlab.bench.planning.preset_file import find_preset

COPY = 4000.0  # GB/s
# Of the copy rate, and host time in µs: what each provider comes to here.
RATES = {"torch-loop": (0.1, 9000.0), "torch-foreach": (0.27, 900.0), "torch-fused": (0.68, 80.0),
         "torch": (0.6, 30.0), "torch-lowp": (0.7, 35.0), "torch-compiled": (0.75, 60.0),
         "apex": (0.72, 500.0), "apex-capturable": (0.45, 550.0), "deepspeed": (0.7, 300.0)}


def rows(label="Apex", device="cuda", ops=OPS, quick=False, failed=()):
    """The rows of a run; `failed`: names of providers."""
    rng, preset = random.Random(0), find_preset("gpt-small" if device == "cuda" else "cpu")
    every = cases(ops, preset, device, quick)
    points = [_point(rng, case, provider, label, device, quick, provider.name in failed)
              for case in every for provider in providers(case)]
    here = {"python": "3.12.3", "torch": "2.11.0+cu130", "cuda": "13.0", "device": "NVIDIA H200",
            "capability": "9.0", "uuid": "GPU-made-up", "cpu": "made-up CPU", "cores": 16,
            "variables": {}}
    if device == "cpu":
        here |= {"cuda": None, "device": "made-up CPU", "capability": None, "uuid": None}
    found = [{"row": "request", "version": "0.1.0", "points": len(points), "preset": preset.name,
              "seed": 0, "configuration": {"ops": list(ops), "device": device}},
             {"row": "subject", "apex": made_result.apex(label), "record": None}, *points]
    found += [{"row": "process", "op": op, "copy_gbps": COPY if device == "cuda" else None,
               "result": {"environment": here}, "telemetry": None, "causes": []} for op in ops]
    return [{**row, "time": "2026-01-01T00:00:00+00:00", "driver": "580.159.04"} for row in found]


def result(label="Apex", **given):
    from apexlab.bench.ops.result import make_result

    return make_result(rows(label, **given))


def _point(rng, case, provider, label, device, quick, failed):
    why, state, us, proof = left_out(case, provider, device, quick), "measured", {}, None
    apex = provider.package == "apex"
    if why or provider.package == "deepspeed" or (apex and (label is None or device == "cpu")):
        state, why = "not-available", why or "It is not installed here."
    elif failed:
        state, why = "failed", "out of memory: made up"
    else:
        share, host = RATES[provider.name]
        kernel = case.least_bytes() / (share * COPY * 1e3)
        us = {"host": _samples(rng, host), "call": _samples(rng, max(host, kernel))}
        if device == "cuda":
            us |= {"cold": _samples(rng, kernel), "hot": _samples(rng, 0.8 * kernel)}
        proof = {"verdict": "proven", "why": "", "parts": []} if apex else None
    return {"row": "point", "op": case.op, "case": case.name, "dtype": case.dtype,
            "autocast": case.autocast, "direction": case.direction, "provider": provider.name,
            "state": state, "why": why, "us": us, "control": _twice(rng, case, provider, us),
            "version": None, "least_bytes": case.least_bytes(),
            "moment": None, "error": None, "compile_seconds": None, "clock_why": "",
            "proof": proof}


def _twice(rng, case, provider, us):
    if provider.name != CONTROL[case.op] or not us:
        return None
    return {kind: [[one * rng.uniform(0.9999, 1.0001) for one in each] for each in rounds]
            for kind, rounds in us.items()}


def _samples(rng, us):
    return [[us * rng.uniform(0.98, 1.02) for _ in range(5)] for _ in range(4)]
