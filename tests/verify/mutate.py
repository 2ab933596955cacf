"""Changes binaries at random and reads each with every reader; run by test_mutations.py.

    python mutate.py SEED COUNT FILE...

The first half of the changes are of one byte each, spread evenly over the places of structure; the
others are of any kind. Prints one JSON object: how many were `read` and `refused`, the `slowest` in
seconds of processor time, the `peak` of memory in bytes, and `wrong`: what must not have happened,
with the change that did it. A crash or a hang is seen from outside.
"""

from __future__ import annotations

import json
import os
import random
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from apexlab.verify import anatomy, binary, elf, fatbin
from apexlab.verify.errors import UnreadableError
from apexlab.verify.library import Library

VALUES = (0, 1, 2, 0x7F, 0x80, 0xFF)
WIDE = (0, 1, 1 << 31, (1 << 31) - 1, 1 << 32, 1 << 63, (1 << 64) - 1, (1 << 63) - 1)
NAMES = (b"_Z6kernelPf", b"PyInit_amp_C", b"cudaLaunchKernel", b"nowhere")


class Subject:
    """A file that is changed in place and put right again, and what it held when it was whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.whole = path.read_bytes()
        found = anatomy.read(path, with_kernels=True)
        self.has_code = bool(found.code)
        self.targets = {one.target for one in found.code}
        self.kernels = {one.target for one in found.kernels or () if one.names}
        self.places = tuple(structure(path))
        self.bytes = sorted({at for first, last in self.places if last - first < 10_000
                             for at in range(first, min(last, len(self.whole)))})

    def restore(self, change: list[tuple[int, bytes]]) -> None:
        with self.path.open("r+b") as file:
            if os.fstat(file.fileno()).st_size != len(self.whole):
                file.truncate(0)
                file.write(self.whole)
            for at, data in change:
                file.seek(at)
                file.write(self.whole[at:at + len(data)])


def structure(path: Path) -> Iterator[tuple[int, int]]:
    """Where the file holds structure, as first and last byte: the places worth changing."""
    yield 0, 64
    with elf.opened(path) as opened:
        data = opened.data
        table, = struct.unpack_from("<Q", data, 40)
        yield table, table + 64 * len(opened.sections)
        yield table, table + 64 * len(opened.sections)
        yield 64, 64 + 56 * 12
        for section in opened.sections:
            if section.type in ("SHT_DYNAMIC", "SHT_GNU_HASH", "SHT_GNU_verneed", "SHT_DYNSYM",
                                "SHT_GNU_versym") or section.name in (
                                    ".shstrtab", ".nvFatBinSegment"):
                yield section.offset, section.offset + min(section.size, 2048)
            if section.name == fatbin.SECTION:
                for entry in fatbin.read_containers(opened.bytes(section), path)[1]:
                    start, end = section.offset + entry.start, section.offset + entry.end
                    yield start - 88, start  # the headers of the entry and its container
                    yield start - 88, start
                    yield start, min(end, start + 64)
                    yield start, end
                    if entry.kind == fatbin.SASS and entry.compression == "none":
                        inner, = struct.unpack_from("<Q", data, start + 40)
                        yield start + inner, min(end, start + inner + 64 * 32)


def changes(subject: Subject, chance: random.Random) -> list[tuple[int, bytes]]:
    """One to six new values at places of structure, or, seldom, anywhere."""
    found = []
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        first, last = chance.choice(subject.places)
        if chance.random() < 0.05:
            first, last = 0, len(subject.whole)
        at = chance.randrange(first, min(last, len(subject.whole) - 8))
        kind = chance.random()
        if kind < 0.4:
            new = bytes([chance.choice((*VALUES, chance.randrange(256)))])
        elif kind < 0.7:
            new = bytes([subject.whole[at] ^ 1 << chance.randrange(8)])
        elif kind < 0.9:
            new = struct.pack("<Q", chance.choice(WIDE))[:chance.choice((2, 4, 8))]
        else:
            new = struct.pack("<Q", chance.randrange(len(subject.whole)))[:chance.choice((4, 8))]
        found.append((at, new))
    return found


def one_byte(subject: Subject, number: int, chance: random.Random) -> list[tuple[int, bytes]]:
    """Another value for one byte of structure: the golden ratio spreads the numbers evenly."""
    at = subject.bytes[int(number * 0.6180339887 % 1 * len(subject.bytes))]
    old = subject.whole[at]
    return [(at, bytes([chance.choice((0, 255, old ^ 1, old ^ 128, chance.randrange(256)))]))]


def judge(subject: Subject, single: bool) -> str | None:
    """Read the changed file; what must not be. Raises UnreadableError where it is refused."""
    found = binary.read_binary(subject.path, digest=False)
    told = anatomy.read(subject.path, with_kernels=True)
    listed = told.kernels or ()
    library = Library(subject.path)
    for name in NAMES:
        library.defines(name)
    if (found.targets, found.ptx) != (told.targets, told.ptx):
        return "the readers disagree"
    # Several changes at once may hit upon another file that is right; one must not.
    if single and subject.has_code and not told.code:
        return "its device code vanished"
    # Another number in an entry's header makes its code that of another target or kind, and
    # nothing in the file tells that it is not so.
    moved = {one.target for one in told.code} - subject.targets
    if single and not moved and any(not one.names and not one.why for one in listed):
        return "the kernels of a target vanished"
    if single and subject.kernels and found.kernels == 0:
        return "its kernels are said to be none"
    return None


def main(seed: int, count: int, files: list[Path]) -> dict[str, object]:
    chance = random.Random(seed)
    outcome: dict[str, object] = {}
    read = refused = 0
    slowest, wrong = 0.0, []
    with tempfile.TemporaryDirectory() as folder:
        subjects = []
        for number, file in enumerate(files):
            copy = Path(folder) / f"{number}.so"
            copy.write_bytes(file.read_bytes())
            subjects.append(Subject(copy))
        for number in range(count):
            subject = subjects[number % len(subjects)]
            sweep = number < count // 2
            change = one_byte(subject, number, chance) if sweep else changes(subject, chance)
            with subject.path.open("r+b") as file:
                for at, data in change:
                    file.seek(at)
                    file.write(data)
                if not sweep and chance.random() < 0.03:
                    file.truncate(chance.randrange(len(subject.whole)))
            started = time.process_time()
            try:
                if fault := judge(subject, len(change) == 1):
                    wrong.append(f"{subject.path.name} {change}: {fault}")
                read += 1
            except UnreadableError:
                refused += 1
            except Exception as error:
                wrong.append(f"{subject.path.name} {change}: {type(error).__name__} {error}")
            slowest = max(slowest, time.process_time() - started)
            subject.restore(change)
    outcome.update(read=read, refused=refused, slowest=slowest, wrong=wrong[:20],
                   peak=peak_of_memory())
    return outcome


def peak_of_memory() -> int:
    # Not getrusage: a program inherits its starter's peak there.
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]), [Path(a) for a in sys.argv[3:]])))
