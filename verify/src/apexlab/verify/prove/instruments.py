"""What sees kernels: torch's profiler by their names, and the interposer by the files they lie in.

Neither is trusted before it passed the controls. A launch is {"name", "count", "file", "us"}: the
demangled name, the shared object that registered the kernel (interposer only, None where that is
not certain), and the microseconds on the GPU (profiler only).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

Launch = dict[str, Any]

# What the profiler shows on the GPU's lane and is no kernel.
_NO_KERNEL = ("Memcpy ", "Memset (", "Stream Wait Event")
_SYNC = " Sync"
_LONGEST = 1 << 14


class Seen:
    """The launches while it was watched; None from an instrument that is not at work here.
    `refused` are those that CUDA refused with an error, by the interposer: they ran nothing."""

    profiler: list[Launch] | None = None
    interposer: list[Launch] | None = None
    refused: list[Launch] | None = None


class Instruments:
    """Both instruments in this process. `library` is the interposer that it was started with
    (LD_PRELOAD), or None. Without `profiler` only the interposer works: the profiler takes seconds
    to start, and slows down what comes after it."""

    def __init__(self, torch: Any, library: str | None, profiler: bool = True) -> None:
        self._torch = torch
        os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # its errors are ours to tell
        self._profiles = profiler and (
            torch.profiler.ProfilerActivity.CUDA in torch.profiler.supported_activities())
        self._interposer = _Interposer.of(library)

    @contextlib.contextmanager
    def watch(self, device: Any) -> Iterator[Seen]:
        """What is launched meanwhile; the result is filled in at the end."""
        seen = Seen()
        profiler = self._start()
        if self._interposer is not None:
            self._interposer.reset()
        try:
            yield seen
            if device.type == "cuda":
                self._torch.cuda.synchronize(device)
        finally:
            if self._interposer is not None:
                seen.interposer, seen.refused = self._interposer.launches()
            seen.profiler = self._stop(profiler)

    def _start(self) -> Any:
        """A profiler at work, or None. Whatever hinders it, the call itself goes on."""
        if not self._profiles:
            return None
        with self._guarded():
            profiler = self._torch.profiler.profile(
                activities=[self._torch.profiler.ProfilerActivity.CUDA])
            profiler.start()
            return profiler
        return None

    def _stop(self, profiler: Any) -> list[Launch] | None:
        if profiler is None:
            return None
        with self._guarded():
            profiler.stop()
            return _summed(_kernels(profiler.events()))
        return None

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        # Another profiler may hold the GPU, the driver may refuse, torch may have changed: all of
        # it comes to the same, that this instrument sees nothing.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                yield
            except Exception:
                self._profiles = False


def controls(instruments: Instruments, device: Any) -> dict[str, Any]:
    """What torch itself surely runs on the GPU: an addition, and its own layer norm, which may not
    be taken for an extension's."""
    torch = instruments._torch
    values = torch.ones(64, 64, device=device)
    runs: dict[str, Callable[[], Any]] = {
        "add": lambda: torch.add(values, 1),
        "layer_norm": lambda: torch.nn.functional.layer_norm(values, (64,)),
    }
    with instruments.watch(device):  # the first time sets the profiler up
        runs["add"]()
    answer = {}
    for name, run in runs.items():
        with instruments.watch(device) as seen:
            run()
        answer[name] = {"profiler": seen.profiler, "interposer": seen.interposer}
    return answer


def _kernels(events: Any) -> Iterator[Launch]:
    for event in events:
        name = str(event.name)
        if (event.device_type.name == "CUDA" and not getattr(event, "is_user_annotation", False)
                and not name.startswith(_NO_KERNEL) and not name.endswith(_SYNC)):
            yield _launch(readable(name), 1, None, float(event.time_range.elapsed_us()))


def _launch(name: str, count: int, file: str | None, us: float | None) -> Launch:
    return {"name": name, "count": count, "file": file, "us": us}


def _summed(launches: Iterator[Launch]) -> list[Launch]:
    """One launch for each name and file, in the order in which they first came."""
    found: dict[tuple[str, str | None], Launch] = {}
    for one in launches:
        kept = found.setdefault((one["name"], one["file"]), _launch(
            one["name"], 0, one["file"], None if one["us"] is None else 0.0))
        kept["count"] += one["count"]
        if one["us"] is not None:
            kept["us"] += one["us"]
    return list(found.values())


class _Counted(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("file", ctypes.c_char_p),
                ("done", ctypes.c_uint64), ("refused", ctypes.c_uint64))


class _Interposer:
    """The preloaded library (interposer.c)."""

    def __init__(self, library: Any) -> None:
        self._library = library

    @classmethod
    def of(cls, path: str | None) -> _Interposer | None:
        """None where this process was not started with it."""
        try:
            return cls(ctypes.CDLL(path, os.RTLD_NOLOAD | os.RTLD_LAZY)) if path else None
        except OSError:
            return None

    def reset(self) -> None:
        self._library.apexlab_reset()

    def launches(self) -> tuple[list[Launch] | None, list[Launch] | None]:
        """Those that CUDA accepted, and those that it refused; None where some were lost."""
        room = self._library.apexlab_launches(None, 0)
        if room < 0:
            return None, None
        counted = (_Counted * max(room, 1))()
        self._library.apexlab_launches(counted, room)
        return (_summed(_launches(counted[:room], "done")),
                _summed(_launches(counted[:room], "refused")))


def _launches(counted: list[Any], which: str) -> Iterator[Launch]:
    for one in counted:
        if count := int(getattr(one, which)):
            name = readable((one.name or b"an unregistered kernel").decode("utf-8", "replace"))
            file = None if one.file is None else os.fsdecode(one.file)
            yield _launch(name, count, file, None)


_known: dict[str, str] = {}


def readable(name: str) -> str:
    """A C++ name as the profiler shows it, which itself leaves names of more than 1,024 letters as
    they are."""
    if not name.startswith("_Z") or len(name) > _LONGEST:
        return name
    if name not in _known:
        _known[name] = _demangled(name)
    return _known[name]


def _demangled(name: str) -> str:
    try:
        library, system = ctypes.CDLL("libstdc++.so.6"), ctypes.CDLL(None)
    except OSError:
        return name
    library.__cxa_demangle.restype = ctypes.c_void_p
    text = library.__cxa_demangle(name.encode(), None, None, None)
    if not text:
        return name
    found = ctypes.string_at(text).decode("utf-8", "replace")
    system.free(ctypes.c_void_p(text))
    return found
