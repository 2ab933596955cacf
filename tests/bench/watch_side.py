"""Run on a GPU by test_run_gpu.py: NVML's samples while a process of torch's computes; as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict

from apexlab.bench.run.nvml import Watch
from apexlab.bench.run.telemetry import sliced

BUSY = """
import time, torch
a = torch.randn(4096, 4096, device="cuda")
for _ in range(20): a @ a
torch.cuda.synchronize()
uuid = getattr(torch.cuda.get_device_properties(0), "uuid", None)
print(uuid, flush=True)
end = time.monotonic() + 3
while time.monotonic() < end:
    for _ in range(20): a @ a
    torch.cuda.synchronize()
"""


def main() -> None:
    watch = Watch(1)
    before = watch.others()
    watch.start()
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True) as busy:
        uuid = busy.stdout.readline().strip()
        start = time.monotonic()
        time.sleep(2)
        end, during = time.monotonic(), watch.others()
    time.sleep(0.5)
    samples = watch.stop()
    print(json.dumps({
        "why_none": watch.why_none, "lost": watch.lost, "uuid": uuid, "uuids": watch.uuids(),
        "before": before, "during": during, "found": sliced(samples, (start, end), 1),
        "seconds": end - start, "last": asdict(samples[0][-1]) if samples else None},
        default=list))


main()
