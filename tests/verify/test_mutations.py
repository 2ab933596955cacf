"""Changed binaries through all readers: each is read or refused, and what was there never vanishes.

mutate.py does the work, in processes of its own, so that a crash or a hang is seen and the memory
is that of the readers alone.
"""

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MOST_SECONDS = 1.0  # of processor time for one file
MOST_MEMORY = 256 << 20


def mutated(python, count: int, files: list[Path], processes: int, seconds: int):
    """Start the processes, wait for all of them; what they say, added up."""
    running = [
        subprocess.Popen([python, HERE / "mutate.py", str(seed), str(count // processes), *files],
                         stdout=subprocess.PIPE, text=True)
        for seed in range(processes)]
    try:
        said = [json.loads(process.communicate(timeout=seconds)[0]) for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert [process.returncode for process in running] == [0] * processes
    total = {key: sum(one[key] for one in said) for key in ("read", "refused")}
    total |= {key: max(one[key] for one in said) for key in ("slowest", "peak")}
    wrong = [fault for one in said for fault in one["wrong"]]
    print(f"{total['read']} were read, {total['refused']} refused; slowest "
          f"{total['slowest'] * 1000:.0f} ms, peak {total['peak'] >> 20} MiB")
    return total, wrong


def check(total, wrong):
    assert wrong == []
    assert total["read"] and total["refused"]
    assert total["slowest"] < MOST_SECONDS
    assert total["peak"] < MOST_MEMORY


def packed(maker, code: bytes) -> bytes:
    """An entry of machine code as an LZ4 block of literals."""
    rest, last = divmod(len(code) - 15, 255)
    block = b"\xf0" + b"\xff" * rest + bytes([last]) + code
    entry = bytearray(maker.entry(2, 80, block, flags=0x2000))
    struct.pack_into("<I", entry, 16, len(block))
    struct.pack_into("<Q", entry, 56, len(code))
    return bytes(entry)


def test_thousands_of_changed_binaries_are_read_or_refused(maker, folder):
    names = [f"_Z{5}name{letter}v" for letter in "abc"]
    code = maker.container(
        packed(maker, maker.cubin(names)), maker.entry(2, 90, maker.cubin(names)),
        maker.entry(1, 90, b".version 9.0\n.visible .entry _Z1av()"))
    wrapper = ('__asm__(".section .nvFatBinSegment,\\"aw\\"\\n.long 0x466243b1, 1\\n.quad 0, 0\\n'
               '.previous\\n");')
    file = maker.extension(folder, "amp_C", code=code, more=wrapper,
                           calls=("_ZN3c105ErrorEv",),
                           needs=(maker.named(folder / "lib", "libc10.so", "_ZN3c105ErrorEv"),))
    check(*mutated(sys.executable, 5000, [file], 1, 120))


@pytest.mark.cuda
def test_a_hundred_thousand_changed_binaries_are_read_or_refused(nvcc, cuda_env, tmp_path):
    """Real ones: nvcc's, without compression and with it in two ways."""
    files = [nvcc("-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90a,code=sm_90a",
                  "-gencode=arch=compute_90,code=compute_90", *mode)
             for mode in (["--compress-mode=none"], ["--compress-mode=size"],
                          ["--compress-mode=speed", "-Xfatbin", "-compress-all"])]
    check(*mutated(sys.executable, 100_000, files, 2, 900))
