"""How much work a look takes: files opened, bytes read, processes started. Not how long.

A time depends on the machine; these numbers do not, and what makes verify and inspect slow shows
in them first.
"""

import json
import subprocess
import sys

import pytest

# Runs a command with an eye on what it does: opened files, started processes, imported modules.
WATCH = """
import collections, json, sys
opened, started, loaded, hashed = collections.Counter(), [], [], [0]
def watch(event, args):
    if event == "open" and isinstance(args[0], (str, bytes)):
        name = args[0].decode() if isinstance(args[0], bytes) else args[0]
        if not str(name).endswith((".py", ".pyc")):
            opened[str(name)] += 1
    elif event in ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.system", "os.exec"):
        started.append(event)
    elif event == "ctypes.dlopen" and args[0]:  # without a name it is Python itself
        loaded.append(args[0])
sys.addaudithook(watch)
import hashlib
class Counting:
    def __init__(self, data=b""):
        hashed[0] += len(data)
        self.real = real(data)
    def update(self, data):
        hashed[0] += len(data)
        self.real.update(data)
    def hexdigest(self):
        return self.real.hexdigest()
real, hashlib.sha256 = hashlib.sha256, Counting
from apexlab.verify.main import run
code = run(sys.argv[2:])
with open(sys.argv[1], "w") as file:
    json.dump({"code": code, "opened": opened, "started": started, "loaded": loaded,
               "hashed": hashed[0], "modules": sorted(sys.modules), "peak": 1024 * sum(
        int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))},
        file)
"""


@pytest.fixture
def watched(tmp_path):
    def call(*args):
        report = tmp_path / "work.json"
        done = subprocess.run([sys.executable, "-c", WATCH, report, *map(str, args)],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(report.read_text())

    return call


NAMES = ("amp_C", "fused_layer_norm_cuda", "syncbn", "mlp_cuda", "fused_dense_cuda")


@pytest.fixture
def static(watched, maker, folder):
    maker.healthy(folder, *NAMES)
    work = watched("verify", "--level", "static", "--site", folder, "--arch", "9.0", "--json",
                   *(f"--require={name}" for name in NAMES))
    assert work["code"] == 0
    return folder, work


def test_static_starts_no_process_and_loads_nothing(static):
    _, work = static
    assert (work["started"], work["loaded"]) == ([], [])


def test_static_imports_neither_torch_nor_what_it_has_no_use_for(static):
    _, work = static
    unwanted = {"torch", "apex", "rich", "asyncio", "multiprocessing", "numpy", "jsonschema"}
    assert unwanted & set(work["modules"]) == set()


def test_static_opens_each_extension_once_and_hashes_it_once(static):
    folder, work = static
    files = sorted(path for name in NAMES for path in folder.glob(f"{name}.*"))
    assert len(files) == len(NAMES)
    assert {str(path): work["opened"][str(path)] for path in files} == dict.fromkeys(
        map(str, files), 1)
    assert work["hashed"] == sum(path.stat().st_size for path in files)


def test_static_opens_each_of_torchs_libraries_at_most_once(static):
    folder, work = static
    own = {name: count for name, count in work["opened"].items()
           if name.startswith(str(folder / "torch" / "lib"))}
    assert own and set(own.values()) == {1}


def test_the_number_of_files_grows_with_the_extensions_and_not_with_their_square(
        watched, maker, tmp_path):
    def opened(*names):
        folder = tmp_path / str(len(names))
        folder.mkdir()
        maker.healthy(folder, *names)
        work = watched("verify", "--level", "static", "--site", folder, "--arch", "9.0",
                       *(f"--require={name}" for name in names))
        return sum(count for name, count in work["opened"].items()
                   if name.startswith(str(folder)))

    one, two, five = opened(*NAMES[:1]), opened(*NAMES[:2]), opened(*NAMES)
    assert five - one <= 4 * (two - one)


@pytest.fixture
def large(maker, folder):
    """An extension of 64 MiB, nearly all of it machine code."""
    return maker.extension(folder, "large", code=maker.container(
        *[maker.entry(2, 90, maker.cubin(["_Z1av"]))] * 3,
        maker.entry(2, 80, maker.cubin(["_Z1av"]) + bytes(64 << 20))))


def test_inspect_reads_of_a_large_file_only_what_it_tells(watched, large, maker, folder):
    work = watched("inspect", large)
    assert work["code"] == 0 and large.stat().st_size > 64 << 20
    assert work["opened"][str(large)] == 1
    assert (work["hashed"], work["started"], work["loaded"]) == (0, [], [])
    # What is touched of a mapped file counts as memory, and the rest does not.
    small = watched("inspect", maker.extension(folder, "small", code=maker.fatbin("sm_90")))
    assert work["peak"] < small["peak"] + (8 << 20)


def test_kernels_start_one_process_for_their_names(watched, large):
    work = watched("inspect", "--kernels", large)
    assert work["started"].count("os.fork") == 1
    assert "subprocess.Popen" not in work["started"]
