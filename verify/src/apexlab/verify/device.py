"""The visible GPUs, through the driver's library alone: no torch, no toolkit, no nvidia-smi."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

from apexlab.verify.report import Device

# Present wherever a driver was handed to this machine or container: Linux, and WSL.
_NODES = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
_DRIVER_VERSION = Path("/proc/driver/nvidia/version")
_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*


def visible_devices() -> tuple[Device, ...]:
    """The GPUs that a CUDA program would see here; CUDA_VISIBLE_DEVICES counts. Empty for none."""
    if not any(node.exists() for node in _NODES):
        return ()
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ()
    count = ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return ()
    return tuple(_device(cuda, index) for index in range(count.value))


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
