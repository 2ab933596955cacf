"""Made-up runs, as the command writes them down, and the results that follow from them.

Every figure here is invented: seeded noise around round numbers. Nothing was measured.
"""

from __future__ import annotations

import copy
import json
import math
import random
from dataclasses import asdict

from apexlab.bench.planning.configuration import configuration, configuration_hash
from apexlab.bench.planning.preset_file import find_preset
from apexlab.bench.planning.rounds import order
from apexlab.bench.planning.scenario import find_scenarios, of_ladder

MADE_UP = "made up for a test: no figure here was measured"
COMMIT = "6424da3b0b0d6fda0a1a0ab8a9e0a4d0a0f0c0de"
MODULES = {"amp_C": "/opt/venv/lib/python3.12/site-packages/amp_C.so",
           "fused_layer_norm_cuda": "/opt/venv/lib/python3.12/site-packages/fused_layer_norm.so"}
TORCH = "/opt/venv/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so"
ADAM = "multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float, int>, float>"
NORM = "cuApplyLayerNorm<float, float, float>"
TIMING = {"least_warmup": 20, "most_warmup": 100, "agree": 0.01, "blocks": 10,
          "block_seconds": 0.5}
_RESULTS = {}  # the same keywords give the same result, which takes half a second


def apex(label="Apex"):
    """What apex.py says of a made-up installation; None for none."""
    if label is None:
        return {"present": False, "label": None, "source": None, "commit": None, "version": None}
    source = {"Apex": "https://github.com/NVIDIA/apex", "stand-in": "apexlab stand-in"}[label]
    return {"present": True, "label": label, "source": source,
            "commit": COMMIT if label == "Apex" else None, "version": "0.1"}


def plan(ladder="all", names=None, rounds=5, device="cuda", gpus=1, seed=0, preset=None,
         quick=False):
    """A plan; `names` are scenarios one by one, the first of them the baseline."""
    scenarios = find_scenarios(names) if names else of_ladder(ladder)
    chosen = find_preset(preset or ("gpt-small" if device == "cuda" else "cpu"))
    settings = configuration(chosen, scenarios, "0" * 64, seed, device, gpus)
    return {
        "schema": "apexlab.bench-plan/1", "version": "0.1.0", "created": "2026-01-01T00:00:00Z",
        "configuration": settings, "configuration_hash": configuration_hash(settings),
        "ladder": None if names else ladder, "scenarios": [each.name for each in scenarios],
        "baseline": scenarios[0].name, "rounds": rounds, "quick": quick, "seed": seed,
        "device": device, "gpus": gpus, "margin": 0.02,
        "preset": {"name": chosen.name, "batch": chosen.batch, "shape": asdict(chosen.shape)},
        "data": {"kind": "stream", "seed": seed}, "timing": TIMING}


def rows(plan, label="Apex", failed=(), unavailable=(), unproven=(), unequal=(), factors=None,
         noise=0.002, finished=None, causes=None, flat=False, seed=0):
    """The rows of a run of this plan.

    `failed`, `unavailable`, `unproven`, `unequal` (parity): names of scenarios; `factors`: times
    of a scenario over what they would be; `noise`: spread of a run; `finished`: rounds before the
    interruption; `causes`: {round: [cause]}; `flat`: the loss does not fall.
    """
    make = _Maker(plan, label, set(failed), set(unavailable), set(unproven), set(unequal),
                  factors or {}, noise, flat, random.Random(seed))
    found = [{"row": "subject", "apex": apex(label), "driver": make.driver}]
    found += [make.look(each) for each in find_scenarios(plan["scenarios"])]
    rounds = order(plan["scenarios"], plan["baseline"], plan["rounds"], plan["seed"])
    for number, runs in enumerate(rounds[:finished]):
        for run in runs:
            found.append(make.run(run, number, (causes or {}).get(number, [])))
    return found


def result(label="Apex", record=None, **given):
    """A result. The keywords of `plan` and of `rows`; by default all 21 scenarios, 5 rounds."""
    key = json.dumps([label, record, given], sort_keys=True)
    if key not in _RESULTS:
        _RESULTS[key] = _result(label, record, given)
    return copy.deepcopy(_RESULTS[key])


def _result(label, record, given):
    from apexlab.bench.result.result import make_result

    given = dict(given)
    of_plan = {key: given.pop(key) for key in ("ladder", "names", "rounds", "device", "gpus",
                                               "preset", "quick") if key in given}
    planned = plan(**of_plan)
    return make_result(planned, rows(planned, label, **given), apex(label), record)


def awkward(**given):
    """A result with one scenario of each kind of trouble."""
    return result(failed=["torch-fused-amp-bf16-graph"], unavailable=["torch-tf32"],
                  unproven=["apex-tf32"], unequal=["apex-amp-fp16"], **given)


class _Maker:
    def __init__(self, plan, label, failed, unavailable, unproven, unequal, factors, noise, flat,
                 rng):
        self.plan, self.label, self.rng, self.noise = plan, label, rng, noise
        self.failed, self.unavailable = failed, unavailable
        self.unproven, self.unequal, self.factors, self.flat = unproven, unequal, factors, flat
        self.cuda = plan["device"] == "cuda"
        self.driver = "580.159.04" if self.cuda else None

    def environment(self):
        return {"python": "3.12.3", "torch": "2.11.0+cu130" if self.cuda else "2.13.0+cpu",
                "cuda": "13.0" if self.cuda else None,
                "device": "NVIDIA H200" if self.cuda else "made-up CPU",
                "capability": "9.0" if self.cuda else None,
                "uuid": "GPU-00000000-made-up" if self.cuda else None, "cpu": "made-up CPU",
                "cores": 16, "apex_version": "0.1" if self.label else None, "variables": {}}

    def ending(self, scenario):
        if scenario.name in self.failed:
            return "failed", "out of memory: 90 GiB were asked for and 80 GiB are there"
        if not self.cuda and scenario.gpu_only:
            return "unavailable", f"{scenario.gpu_only[0]} is not available on a CPU."
        if scenario.apex and self.label is None:
            return "unavailable", "There is no Apex here."
        if scenario.name in self.unavailable:
            return "unavailable", "This torch has not what the scenario needs."
        return "finished", ""

    def seconds(self, scenario):
        settings = scenario.settings
        time = 0.3 if self.cuda else 0.04
        time /= {"fp32": 1.0, "tf32": 2.9, "amp-bf16": 6.0, "amp-fp16": 5.7}[settings.precision]
        saved = {"torch-foreach": 0.0, "torch-fused": 0.0022, "apex": 0.0020,
                 "apex-capturable": 0.0012}[settings.optimizer]
        time -= saved if self.cuda else saved / 10
        time *= {"torch": 1.0, "apex": 1.06, "torch-lowp": 0.99}[settings.norm]
        time /= (1.35 if settings.compile else 1.0) * (1.08 if settings.graph else 1.0)
        return time * self.factors.get(scenario.name, 1.0)

    def proof(self, scenario):
        if not scenario.apex:
            return {"verdict": "not-needed", "why": "", "parts": []}
        if scenario.name in self.unproven:
            return {"verdict": "not-proven", "parts": [],
                    "why": "No kernel of Apex's norm ran: torch's code ran in its place."}
        parts = {"optimizer": ("amp_C", ADAM, 3), "norm": ("fused_layer_norm_cuda", NORM, 25)}
        return {"verdict": "proven", "why": "", "parts": [
            {"part": part, "extension": parts[part][0], "instrument": "interposer",
             "kernels": [{"name": parts[part][1], "count": parts[part][2]}]}
            for part in scenario.apex]}

    def launches(self, scenario):
        step = [{"name": "sm90_gemm_made_up", "count": 146, "file": TORCH, "us": None}]
        for part in self.proof(scenario)["parts"]:
            step += [{**kernel, "file": MODULES[part["extension"]], "us": None}
                     for kernel in part["kernels"]]
        return {"instrument": "interposer" if self.cuda else None, "controls": None, "step": step}

    def losses(self, scenario, steps=200, offset=0.0):
        wrong = 0.4 if scenario.name in self.unequal else 0.0
        start = math.log(self.plan["preset"]["shape"]["vocabulary"])
        return [start - (0 if self.flat else 3.5 * (1 - math.exp(-step / 60)))
                + wrong * step / steps + offset * step / steps
                + self.rng.gauss(0, 1e-5 if scenario.settings.precision == "fp32" else 3e-3)
                for step in range(steps)]

    def kernels(self, scenario, us):
        rest = [("sm90_gemm_made_up", 146, 0.62, None), ("flash_fwd_made_up", 12, 0.12, TORCH),
                ("elementwise_made_up", 200, 0.16, TORCH)]
        if "optimizer" in scenario.apex:
            rest.append((ADAM, 3, 0.04, MODULES["amp_C"]))
        if "norm" in scenario.apex:
            rest.append((NORM, 25, 0.06, MODULES["fused_layer_norm_cuda"]))
        return [{"name": name, "count": count, "us": share * us, "file": file}
                for name, count, share, file in rest]

    def look(self, scenario):
        ending, why = self.ending(scenario)
        found = {"kind": "look", "ending": ending, "why": why, "environment": self.environment()}
        row = {"row": "look", "scenario": scenario.name, "time": "2026-01-01T00:00:00Z"}
        if ending != "finished":
            return {**row, "result": found, "proof": self.proof(scenario)}
        time, baseline = self.seconds(scenario), scenario.name == self.plan["baseline"]
        busy = (0.55 if scenario.settings.norm == "apex" else 0.93) if self.cuda else None
        apex = bool(scenario.apex)
        found |= {
            "phases": None if scenario.settings.graph else {
                "forward": 0.31 * time, "backward": 0.6 * time, "optimizer": 0.09 * time,
                "scaler": 0.01 * time if scenario.settings.numbers.scaler else None},
            "step_seconds": time * 1.03,
            "kernels": self.kernels(scenario, 1e6 * time * busy) if self.cuda else [],
            "launches": self.launches(scenario), "files": MODULES if apex else {},
            "gpu_busy": busy, "kernels_per_step": 700 if self.cuda else 0,
            "attention": ["flash" if self.cuda else "flash-cpu"],
            "product_error": 3e-4 if scenario.settings.numbers.tf32 else 2e-7,
            "norm_dtypes": {"input": "float32", "weight": "float32", "output": "float32"},
            "optimizer_state": {"dtypes": {"exp_avg": "float32", "exp_avg_sq": "float32"},
                                "bytes": 2 * 4 * 124_000_000},
            "syncs": (1 if scenario.settings.numbers.scaler else 0) if self.cuda else None,
            "warnings": ["FutureWarning: made up"] if "norm" in scenario.apex else [],
            "parity": {"losses": self.losses(scenario), "gradient_error": 1e-6,
                       "update_error": 2e-7},
            "seeds": [self.losses(scenario, offset=off) for off in (-0.01, 0.0, 0.012)]
            if baseline else [], "trace": None}
        return {**row, "result": found, "proof": self.proof(scenario),
                **self.owned(found["kernels"])}

    def owned(self, kernels):
        modules = {file: name for name, file in MODULES.items()} | {TORCH: "torch"}
        total = sum(kernel["us"] for kernel in kernels)
        owners = [{key: kernel[key] for key in ("name", "count", "us")}
                  | {"share": kernel["us"] / total, "owner": modules.get(kernel["file"])}
                  for kernel in sorted(kernels, key=lambda each: -each["us"])]
        share = sum(each["share"] for each in owners if each["owner"] in MODULES)
        return {"owners": owners, "apex_share": share if kernels else None}

    def run(self, run, number, causes):
        scenario, = find_scenarios([run.scenario])
        ending, why = self.ending(scenario)
        result = {"kind": "time", "ending": ending, "why": why,
                  "environment": self.environment()}
        row = {"row": "run", "round": number, "attempt": 0, "scenario": run.scenario,
               "control": run.control, "time": "2026-01-01T00:00:00Z", "result": result,
               "telemetry": None, "causes": list(causes), "single": None,
               "proof": self.proof(scenario)}
        if ending != "finished":
            return row
        result |= self.timed(scenario)
        if self.cuda:
            row["telemetry"] = self.telemetry(result)
        if self.plan["gpus"] > 1:
            row["single"] = {**result, **self.timed(scenario, 0.95)}
        return row

    def timed(self, scenario, slower=1.0):
        time = slower * self.seconds(scenario) * math.exp(self.rng.gauss(0, self.noise))
        blocks = [time * math.exp(self.rng.gauss(0, self.noise / 2)) for _ in range(10)]
        per_block = max(1, math.ceil(0.5 / time))
        base = 15.6 if scenario.settings.numbers.autocast else 20.8
        gib = base * (0.7 if scenario.settings.compile else 1) - (
            0.6 if scenario.settings.norm == "apex" else 0)
        ranks = None
        if self.plan["gpus"] > 1 and slower == 1.0:
            ranks = [{"rank": rank, "blocks": [block * (1 - 0.01 * (rank == 0))
                                               for block in blocks]}
                     for rank in range(self.plan["gpus"])]
        return {
            "first_step_seconds": 40.0 if scenario.settings.compile else 6.0,
            "build_seconds": 2.0, "warmup_steps": 40, "steady": True,
            "window": [1000.0, 1000.0 + sum(blocks) * per_block], "steps_per_block": per_block,
            "blocks": blocks, "steps": [1e3 * time] * (10 * per_block) if self.cuda else [],
            "skipped": 0, "void_blocks": 0, "losses": {"first": 10.8, "last": 7.3},
            "memory": {**({key: int(gib * share * 2**30) for key, share in (
                ("allocated", 1.0), ("reserved", 1.1), ("active", 1.0))} if self.cuda else
                dict.fromkeys(("allocated", "reserved", "active"))),
                "retries": 0 if self.cuda else None, "process": int(1.2 * gib * 2**30)},
            "optimizer_peak": int(0.7 * gib * 2**30) if self.cuda else None, "data_wait": None,
            "launches": self.launches(scenario), "files": MODULES if scenario.apex else {},
            "weights": "f" * 64, "ranks": ranks}

    def telemetry(self, result):
        first, last = result["window"]
        return {"samples": 40, "sm_clock": {"median": 1980, "min": 1965, "max": 1980},
                "memory_clock": {"median": 3201, "min": 3201, "max": 3201},
                "power_watts": {"median": 610.0, "min": 540.0, "max": 640.0},
                "temperature": {"median": 55, "min": 48, "max": 58}, "throttle": [],
                "energy_joules": 610.0 * (last - first), "other_processes": 0}
