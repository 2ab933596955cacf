"""On a GPU: are the witnesses' launches attributed to their own binaries, and to none of torch's?

    python build.py --out FOLDER --offline SDISTS        (once)
    python check_on_gpu.py FOLDER

It has to be run with a Python that has apexlab-verify and the torch that the witnesses were built
for. Each instrument is asked alone, then both together. Exit code 0: all as it should be; 1: not;
4: no GPU, or an instrument is blind here.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from apexlab.verify import attribute, interposer, registered
from apexlab.verify.found import MODULE, Found
from apexlab.verify.prove.instruments import Instruments, controls

# What each call has to run, by the kernel's own name. 100 tensors in launches of at most 36.
EXPECTED = {
    ("witness_adam", "step"): {"multi_tensor_apply_kernel": 3},
    ("witness_layer_norm", "forward"): {"cuApplyLayerNorm": 1},
    ("witness_layer_norm", "backward"): {
        "cuComputePartGradGammaBeta": 1, "cuComputeGradGammaBeta": 1, "cuComputeGradInput": 1},
}
LARGEST_ERROR = 1e-4
PHASES = 150  # about as many as the level `run` watches


def adam(module: Any, torch: Any, watch: Any) -> dict[str, Any]:
    sizes = [1000] * 100
    grads, values, first, second = (
        [torch.randn(size, device="cuda") for size in sizes],
        [torch.ones(size, device="cuda") for size in sizes],
        [torch.zeros(size, device="cuda") for size in sizes],
        [torch.zeros(size, device="cuda") for size in sizes])
    flag = torch.zeros(1, dtype=torch.int, device="cuda")
    seen = watch(lambda: module.multi_tensor_adam(
        65536, flag, [grads, values, first, second], 0.01, 0.9, 0.999, 1e-8, 1, 1, 1, 0.0))
    # After one step without weight decay each value moved by the rate, against its gradient.
    close("adam", torch.cat(values), 1 - 0.01 * torch.cat(grads).sign(), torch)
    return {"step": seen}


def layer_norm(module: Any, torch: Any, watch: Any) -> dict[str, Any]:
    values, grad = (torch.randn(64, 768, device="cuda") for _ in range(2))
    weight, bias = torch.ones(768, device="cuda"), torch.zeros(768, device="cuda")
    results: dict[str, Any] = {}
    forward = watch(lambda: results.update(
        forward=module.forward_affine(values, [768], weight, bias, 1e-5)))
    output, mean, inverse = results["forward"]
    backward = watch(lambda: results.update(backward=module.backward_affine(
        grad, mean, inverse, values, [768], weight, bias, 1e-5)))
    double = values.double().requires_grad_()
    expected = torch.nn.functional.layer_norm(double, (768,))
    expected.backward(grad.double())
    close("layer norm", output, expected, torch)
    close("layer norm's gradient", results["backward"][0], double.grad, torch)
    return {"forward": forward, "backward": backward}


def close(what: str, got: Any, expected: Any, torch: Any) -> None:
    error = (got.double() - expected.double()).abs().max().item()
    print(f"{what}: largest error {error:.1e}")
    if not error <= LARGEST_ERROR:
        raise SystemExit(f"the numbers of {what} are wrong")


def judged(name: str, phase: str, seen: dict[str, Any], known: attribute.Registered,
           at_work: frozenset[str]) -> list[str]:
    """What is wrong with one phase, as one set of instruments sees it."""
    label = f"{name} {phase} by {' and '.join(sorted(at_work))}"
    kernels = attribute.kernels(name, seen, known, at_work)
    if kernels is None:
        return [f"{label}: the instruments leave it open"]
    own = [kernel for kernel in kernels if kernel.in_extension]
    for kernel in kernels:
        where = "its own" if kernel.in_extension else "NOT its own"
        print(f"{label}: {where} x{kernel.count} {kernel.name[:100]}")
    wrong = [f"{label}: {kernel.name} is torch's" for kernel in own if kernel.name in known.torch]
    for token, count in EXPECTED[name, phase].items():
        got = sum(kernel.count for kernel in own if f"{token}<" in kernel.name)
        if got != count:
            wrong.append(f"{label}: {got} launches of {token}, not {count}")
    for other in known.names:
        if other != name and any(
                one.in_extension for one in attribute.kernels(other, seen, known, at_work) or ()):
            wrong.append(f"{label}: {other} is said to have run")
    return wrong


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        if "APEXLAB_WITNESS_LIBRARY" not in os.environ:
            library = str(interposer.path(Path(scratch)) or "")
            preload = f"{library} {os.environ.get('LD_PRELOAD', '')}".strip()
            return subprocess.run(
                [sys.executable, __file__, str(folder)], check=False,
                env={**os.environ, "LD_PRELOAD": preload, "APEXLAB_WITNESS_LIBRARY": library},
            ).returncode
    return check(folder)


def check(folder: Path) -> int:
    import torch

    if not torch.cuda.is_available():
        print("there is no GPU")
        return 4
    sys.path.insert(0, str(folder))
    calls = {"witness_adam": adam, "witness_layer_norm": layer_norm}
    modules = {name: importlib.import_module(name) for name in calls}
    files = {name: Found(name, Path(module.__file__ or ""), MODULE, None)
             for name, module in modules.items()}
    known = registered.read(files, Path(torch.__file__).parent / "lib")
    device = torch.device("cuda", 0)
    instruments = Instruments(torch, os.environ["APEXLAB_WITNESS_LIBRARY"])
    at_work = attribute.working(controls(instruments, device), known)
    print(f"instruments that see torch's own kernels: {', '.join(sorted(at_work)) or 'none'}")

    def watch(run: Any) -> dict[str, Any]:
        with instruments.watch(device) as seen:
            run()
        return {"profiler": seen.profiler, "interposer": seen.interposer}

    values, start = torch.ones(8, device=device), time.monotonic()
    for _ in range(PHASES):
        watch(lambda: torch.add(values, 1))
    print(f"{PHASES} watched phases took {time.monotonic() - start:.2f} s")

    wrong: list[str] = []
    for name, call in calls.items():
        call(modules[name], torch, lambda run: run())  # the first call loads the kernels
        for phase, seen in call(modules[name], torch, watch).items():
            for alone in (*(frozenset({one}) for one in sorted(at_work)), at_work):
                wrong += judged(name, phase, seen, known, alone)
    print("\n".join(wrong) or "all launches are attributed to the binary that they came from")
    return 1 if wrong else 0 if len(at_work) == 2 else 4


if __name__ == "__main__":
    sys.exit(main())
