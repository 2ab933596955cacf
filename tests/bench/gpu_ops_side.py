"""Runs the clocks of `bench ops` on a GPU: python gpu_ops_side.py; one JSON document, {case: what
it found}. Times are in microseconds."""

import json
import statistics

import torch

from apexlab.bench.ops import measure, setting
from apexlab.bench.ops.cases import Case, settings
from apexlab.bench.ops.measure import Watched

place = measure.Gpu("cuda")
MIB = 2**20
small = torch.ones(2 * MIB, device="cuda")  # 8 MiB: fits into the cache of every recent GPU
large = torch.ones(256 * MIB, device="cuda")


def times(call, cold, count=9):
    place.kernel_times([Watched(call, cold)])
    return place.kernel_times([Watched(call, cold) for _ in range(count)])


def median(call, cold):
    return statistics.median(times(call, cold))


def both():
    small.add_(1)
    large.add_(1)


def points(*cases):
    job = {"device": "cuda", "quick": True, "rounds": 2, "seed": 0, "interposer": None,
           "skip": {}, "lacks": "Apex is not installed here."}
    found = []
    for group in settings(cases):
        for point in setting.Setting(group, job, place, lambda _: None).points():
            us = {kind: [len(one) for one in rounds or ()] for kind, rounds in point["us"].items()}
            least = {kind: min(map(min, rounds)) for kind, rounds in point["us"].items() if rounds}
            found.append([point["op"], point["dtype"], point["direction"], point["provider"],
                          point["state"], point["why"], us, least, point["error"]])
    return found


ADAM = Case("adam", "4 x 4 Mi", "float32", "step", ((4 * MIB,),) * 4)
NORMS = [Case(op, "width 1024", "float32", direction, ((4096, 1024),), True)
         for op in ("layernorm", "rmsnorm") for direction in ("forward", "forward+backward")]
CLIP = [Case("clip", "few", "float32", direction, ((MIB,),) * 8)
        for direction in ("unscale", "clip")]
found = {
    "why": place.why, "copy": place.copy_gbps(0.2),
    "hot": median(lambda: small.add_(1), False), "cold": median(lambda: small.add_(1), True),
    "large": median(lambda: large.add_(1), True), "both": median(both, True),
    "points": points(ADAM, *NORMS, *CLIP),
}
place.why = "asked for"
found["events"] = median(lambda: large.add_(1), True)
print(json.dumps(found))
