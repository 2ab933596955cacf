"""The visible GPUs, through the driver's library alone: no torch, no toolkit, no nvidia-smi."""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass
from pathlib import Path

from apexlab.verify.report import Device

# Present wherever a driver was handed to this machine or container: Linux, and WSL.
_NODES = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
_DRIVER_VERSION = Path("/proc/driver/nvidia/version")
_NO_DEVICE = 100
_KNOWN_ERRORS = {
    _NO_DEVICE: ", no device", 802: ", the GPUs' fabric is not ready",
    803: ", its library and its kernel module are of different versions",
    999: ", unknown: nvidia-smi may tell more"}
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*


def has_driver() -> bool:
    """Whether a driver was handed to this machine or container."""
    return any(node.exists() for node in _NODES)


@dataclass(frozen=True)
class Visible:
    """The GPUs that a CUDA program would see here (CUDA_VISIBLE_DEVICES counts), `why_none` in
    words where there is none, and `fails` where that is because the driver fails, which is another
    thing than that there is no GPU."""

    devices: tuple[Device, ...] = ()
    why_none: str = ""
    fails: bool = False


def look() -> Visible:
    """Ask the driver; "cannot be asked" is not "not there"."""
    if not has_driver():
        return Visible(why_none=f"there is no {_NODES[0]}")
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Visible(
            why_none=f"{_NODES[0]} is there, but the driver's library libcuda.so.1 is not")
    count = ctypes.c_int()
    error = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
    if error:
        said = f"the driver answers with error {error}{_KNOWN_ERRORS.get(error, '')}"
        return Visible(why_none=said, fails=error != _NO_DEVICE)
    if not count.value:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        chosen = "" if hidden is None else f" with CUDA_VISIBLE_DEVICES={hidden!r}"
        return Visible(why_none=f"the driver shows none{chosen}")
    return Visible(tuple(_device(cuda, index) for index in range(count.value)))


def _device(cuda: ctypes.CDLL, index: int) -> Device:
    handle, name = ctypes.c_int(), ctypes.create_string_buffer(256)
    cuda.cuDeviceGet(ctypes.byref(handle), index)
    cuda.cuDeviceGetName(name, len(name), handle)
    capability = []
    for attribute in (_MAJOR, _MINOR):
        value = ctypes.c_int()
        cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, handle)
        capability.append(value.value)
    return Device(name.value.decode("utf-8", "replace"), "{}.{}".format(*capability))


def driver_version() -> str | None:
    """The version of the kernel driver, `550.90.07`; None where there is none."""
    try:
        return parse_driver_version(_DRIVER_VERSION.read_text())
    except OSError:
        return None


def parse_driver_version(text: str) -> str | None:
    """The version in the driver's own line, which has two forms: "... x86_64 Kernel Module
    550.90.07 ..." and "... Open Kernel Module for x86_64  580.159.04 ..."."""
    found = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)\s", text)
    return found[1] if found else None
