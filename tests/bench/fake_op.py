"""A made-up process of `bench ops`: says what the real one says, and ends as FAKE_OP orders.

FAKE_OP: {"settings": N, "first": provider that crashes at its first call, "timing": setting in
which it crashes while timing, "dumb": it ends before it says anything}.
"""

import json
import os
import signal
import sys

job, orders = json.loads(sys.argv[1]), json.loads(os.environ["FAKE_OP"])
report = os.fdopen(job["fd"], "w")


def tell(**answer):
    report.write(json.dumps(answer) + "\n")
    report.flush()


def crash():
    print("Segmentation fault, made up", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)


if orders.get("dumb"):
    sys.exit("ImportError: no torch here")
tell(kind="start", environment={"torch": "made up"}, copy_gbps=None)
for number in range(job["done"], orders["settings"]):
    for provider in ("torch-foreach", "torch-fused"):
        if provider in job["skip"]:
            continue
        tell(kind="at", provider=provider)
        if provider == orders.get("first"):
            crash()
    tell(kind="at", provider="")
    if number == orders.get("timing"):
        crash()
    for provider in ("torch-foreach", "torch-fused"):
        why = job["skip"].get(provider, "")
        tell(kind="point", op=job["op"], setting=number, provider=provider,
             state="failed" if why else "measured", why=why)
    tell(kind="setting")
