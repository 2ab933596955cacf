"""How many compilers run at once: jobs (files) times nvcc threads (architectures of one file).

Pure. The promise is that a build never needs more memory than it may use, so both factors are
bound by one product: ninja's jobs and nvcc's threads multiply (91 GiB were seen with 8 threads).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

from apexlab.build.limits import GIB

# The heaviest file of Apex's core, for one architecture: 3.0 GiB, measured with nvcc 13.0.88 and
# torch 2.14.1. nvcc compiles one architecture after another unless it is given threads.
FILE_BYTES = 3 * GIB
# setup.py itself stays in memory with torch imported while ninja runs, and so does this program.
DRIVER_BYTES = 3 * GIB // 4


@dataclass(frozen=True)
class Jobs:
    """`jobs` files at once with `threads` nvcc threads each; `predicted` is in bytes.

    `tight` says that even one compiler may need more than `limit`; `reduced` that fewer jobs than
    asked for were chosen.
    """

    jobs: int
    threads: int
    predicted: int
    limit: int
    tight: bool
    reduced: bool = False


def choose(cores: int, limit: int, archs: int, asked: int | None = None) -> Jobs:
    """The jobs for `cores`, `limit` bytes and `archs` architectures; `asked` wins if it fits.

    Most extensions of Apex have one or two files, so with many slots some go to nvcc's threads:
    the square root of the slots, and no more than there are architectures. Memory that is left
    over allows more threads than cores: the last file of an extension is often alone.
    """
    room = max(1, (limit - DRIVER_BYTES) // FILE_BYTES)
    slots = min(room, max(1, cores))
    ours = slots // max(1, min(archs, isqrt(slots)))
    jobs = ours if asked is None else min(asked, room)
    threads = max(1, min(archs, cores, room // jobs))
    return Jobs(
        jobs=jobs,
        threads=threads,
        predicted=predict(jobs, threads),
        limit=limit,
        tight=predict(1, 1) > limit,
        reduced=asked is not None and jobs < asked,
    )


def predict(jobs: int, threads: int) -> int:
    """The bytes that a build takes at its peak, at most."""
    return DRIVER_BYTES + jobs * threads * FILE_BYTES
