"""Where a task ran: versions, device, and the variables that change what torch does."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from apexlab.bench.measure.ranks import Ranks

PREFIXES = ("TORCH", "PYTORCH_", "CUDA_", "CUBLAS", "CUDNN_", "NCCL_", "NVIDIA_TF32_OVERRIDE",
            "OMP_", "MKL_", "GLOO_", "KINETO_")
# What torchrun sets itself: its own notes, such as a random number of the run, and a default.
OF_TORCHRUN = ("TORCHELASTIC_", "TORCH_NCCL_ASYNC_ERROR_HANDLING")


def environment(ranks: Ranks) -> dict[str, Any]:
    """What a result says of its process, as the contract of the results has it."""
    return {
        "python": platform.python_version(), "torch": torch.__version__,
        "cuda": torch.version.cuda, **gpu(ranks.device), "cpu": processor(),
        "cores": len(os.sched_getaffinity(0)), "apex_version": version("apex"),
        "variables": {name: value for name, value in sorted(os.environ.items())
                      if name.startswith(PREFIXES) and not name.startswith(OF_TORCHRUN)}}


def gpu(device: torch.device) -> dict[str, Any]:
    """Name, capability and UUID; a CPU has a name alone."""
    if device.type != "cuda":
        return {"device": processor(), "capability": None, "uuid": None}
    found = torch.cuda.get_device_properties(device)
    uuid = getattr(found, "uuid", None)  # from torch 2.4 on
    return {"device": found.name, "capability": f"{found.major}.{found.minor}",
            "uuid": None if uuid is None else str(uuid)}


def processor() -> str:
    """The CPU's name as Linux gives it; else its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.machine()


def version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
