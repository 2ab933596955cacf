"""The GPUs' sensors, through NVML. Whatever it cannot tell is None, with a reason, and no error."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from apexlab.bench.run.telemetry import Sample

PERIOD = 0.125  # seconds; the counters behind most sensors change about as often
_UUID_BYTES = 16
_FALLEN = ("NVMLError_GpuIsLost", "NVMLError_DriverNotLoaded", "NVMLError_ResetRequired")


class Watch:
    """Samples GPUs in a thread, between `start` and `stop`. `why_none`: why there are none;
    `lost`: what a GPU that vanished said."""

    def __init__(self, count: int) -> None:
        self.why_none, self.lost = "", ""
        self._gpus: list[_Gpu] = []
        self._samples: list[list[Sample]] = []
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        try:
            import pynvml  # late: only a GPU needs it, and help and a CPU do not
        except ImportError:
            self.why_none = "nvidia-ml-py is not installed"
            return
        try:
            pynvml.nvmlInit()
            self._gpus = [_Gpu(pynvml, name, self._fell) for name in visible(pynvml)[:count]]
        except Exception as error:  # the library may lack the function, or any of its answers
            self.why_none = f"NVML fails: {error}"
            return
        if len(self._gpus) < count:
            self.why_none = f"NVML shows {len(self._gpus)} of the {count} GPUs that are used"
            self._gpus = []

    def _fell(self, what: str) -> None:
        self.lost = self.lost or what

    def uuids(self) -> list[str]:
        """Of the GPUs that are sampled, without GPU- or MIG- in front."""
        return [bare(gpu.name) for gpu in self._gpus]

    def others(self) -> list[str]:
        """The processes that compute on these GPUs now, in words."""
        return [words for gpu in self._gpus for words in gpu.processes_in_words()]

    def start(self) -> None:
        if self._gpus:
            self._samples = [[] for _ in self._gpus]
            self._stop.clear()
            self._thread = threading.Thread(target=self._sample, daemon=True)
            self._thread.start()

    def stop(self) -> list[list[Sample]]:
        """The samples of each GPU since `start`."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None
        return self._samples

    def _sample(self) -> None:
        while True:
            for gpu, samples in zip(self._gpus, self._samples, strict=True):
                samples.append(gpu.sample())
            if self._stop.wait(PERIOD):
                return


class _Gpu:
    """One GPU or one MIG instance by its UUID. Of an instance, clocks and temperature are those of
    the whole GPU; its power and energy cannot be told apart from its neighbours'."""

    def __init__(self, nvml: Any, name: str, fell: Callable[[str], None]) -> None:
        self.nvml, self.name, self._fell = nvml, name, fell
        self.handle = nvml.nvmlDeviceGetHandleByUUID(name)
        self.part = name.startswith("MIG-")
        self.whole = (nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self.handle)
                      if self.part else self.handle)

    def sample(self) -> Sample:
        nvml, whole = self.nvml, self.whole
        before = time.monotonic()
        joules = None if self.part else self._ask("nvmlDeviceGetTotalEnergyConsumption", whole)
        now = (before + time.monotonic()) / 2
        power = None if self.part else self._ask("nvmlDeviceGetPowerUsage", whole)
        reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", whole)
        processes = self._ask("nvmlDeviceGetComputeRunningProcesses", self.handle)
        return Sample(
            now, self._ask("nvmlDeviceGetClockInfo", whole, nvml.NVML_CLOCK_SM),
            self._ask("nvmlDeviceGetClockInfo", whole, nvml.NVML_CLOCK_MEM),
            None if power is None else power / 1000,
            self._ask("nvmlDeviceGetTemperature", whole, nvml.NVML_TEMPERATURE_GPU),
            reasons or 0, None if joules is None else joules / 1000,
            frozenset(entry.pid for entry in processes or ()))

    def processes_in_words(self) -> list[str]:
        found = self._ask("nvmlDeviceGetComputeRunningProcesses", self.handle) or ()
        return [f"process {entry.pid}{_called(self._name(entry.pid))}" for entry in found]

    def _name(self, pid: int) -> str:
        # Its number may be another namespace's, so NVML is asked, and /proc is not.
        said = self._ask("nvmlSystemGetProcessName", pid) or ""
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        return Path(text.split(" ")[0]).name

    def _ask(self, function: str, *arguments: Any) -> Any:
        """NVML's answer, or None; a GPU that vanished is remembered."""
        try:
            return getattr(self.nvml, function)(*arguments)
        except Exception as error:  # not supported, not permitted, or absent from this driver
            if type(error).__name__ in _FALLEN:
                self._fell(str(error))
            return None


def _called(name: str) -> str:
    return f" ({name})" if name else ""


def bare(name: str) -> str:
    """A UUID without what stands before it: torch gives it so."""
    return name.removeprefix("GPU-").removeprefix("MIG-").lower()


def visible(nvml: Any) -> list[str]:
    """The UUIDs of the GPUs that a CUDA program would see, in its order, with GPU- or MIG-."""
    every = _every(nvml)
    if (asked := _from_driver()) is not None:
        return [name for one in asked for name in every if bare(name) == one]
    return chosen(os.environ.get("CUDA_VISIBLE_DEVICES"), every)


def chosen(variable: str | None, every: Sequence[str]) -> list[str]:
    """The UUIDs that CUDA_VISIBLE_DEVICES names, by index or by the beginning of a UUID; what
    follows a name that fits none does not count."""
    if variable is None:
        return [name for name in every if not name.startswith("MIG-")]
    found = []
    for word in (word.strip() for word in variable.split(",")):
        whole = [name for name in every if not name.startswith("MIG-")]
        fits = [whole[int(word)]] if word.isdigit() and int(word) < len(whole) else \
            [name for name in every if word and not word.isdigit() and name.startswith(word)]
        if len(fits) != 1:
            break
        found += fits
    return found


def _every(nvml: Any) -> list[str]:
    """All GPUs and their MIG instances."""
    names = []
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        names.append(nvml.nvmlDeviceGetUUID(handle))
        try:
            instances = range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))
        except nvml.NVMLError:
            continue
        for instance in instances:
            try:
                part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, instance)
                names.append(nvml.nvmlDeviceGetUUID(part))
            except nvml.NVMLError:  # no instance has this number
                continue
    return [name.decode() if isinstance(name, bytes) else name for name in names]


def _from_driver() -> list[str] | None:
    """The bare UUIDs as CUDA itself orders them; None where this driver does not say. It makes no
    context, so this process does not count as one that computes."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        tell = getattr(cuda, "cuDeviceGetUuid_v2", None) or cuda.cuDeviceGetUuid
    except (OSError, AttributeError):
        return None
    count, handle = ctypes.c_int(), ctypes.c_int()
    if cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        return None
    found = []
    for index in range(count.value):
        raw = (ctypes.c_ubyte * _UUID_BYTES)()
        if cuda.cuDeviceGet(ctypes.byref(handle), index) or tell(raw, handle):
            return None
        found.append(str(uuid.UUID(bytes=bytes(raw))))
    return found
