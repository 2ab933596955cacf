"""The rings of tests, and the environments that they need.

A ring is a marker: `torch`, `cuda`, `docker`, `browser`, `gpu`; a test without one is of the
ring `unit`. APEXLAB_RINGS chooses (default unit,torch; "all"). A test whose need is absent is
skipped, and the end of the run says so; APEXLAB_REQUIRE=docker,cuda turns such a skip into a
failure.

The run may be shared out to several processes (`--numprocesses`, pytest-xdist): then the tests
run in the workers, and the end of the run is told by the process that started them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache"
RINGS = ("unit", "torch", "cuda", "docker", "browser", "gpu")
SIDE_BY_SIDE = {"unit", "torch"}
NEEDS = {
    "torch": "a CPU build of torch, from PyPI",
    "cuda": "the CUDA build of torch and NVIDIA's compiler from PyPI, and g++",
    "docker": "a container engine with buildx; for publishing docker-registry and cosign",
    "browser": "Debian's chromium-headless-shell (or chromium), and axe-core from npm",
    "gpu": "an NVIDIA GPU",
}
GPU_PROBE = """
import json, torch
from torch.utils.cpp_extension import CUDA_HOME
print(json.dumps({"count": torch.cuda.device_count(), "home": CUDA_HOME,
                  "arch": "%d.%d" % torch.cuda.get_device_capability()}))
"""
_left_out: dict[str, set[str]] = {}


def words(variable: str, default: str) -> set[str]:
    return {word for word in os.environ.get(variable, default).replace(",", " ").split() if word}


def chosen_rings() -> set[str]:
    return words("APEXLAB_RINGS", "unit,torch")


def ring_of(item: pytest.Item) -> str:
    return next((ring for ring in RINGS[1:] if item.get_closest_marker(ring)), "unit")


def pytest_configure(config: pytest.Config) -> None:
    if unknown := chosen_rings() - {*RINGS, "all"}:
        raise pytest.UsageError(f"no such ring: {', '.join(sorted(unknown))}; there are {RINGS}")
    if hasattr(config, "workerinput"):
        # Each of the workers has a core: threads for all cores would only wait for each other.
        os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """`--numprocesses=auto` is one for each core, but for the rings whose tests share an engine,
    its images or a GPU: those run one after the other, without workers."""
    return None if chosen_rings() <= SIDE_BY_SIDE else 0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = chosen_rings()
    for item in items:
        item.user_properties.append(("ring", ring_of(item)))  # goes with its report
    if "all" in chosen:
        return
    out = [item for item in items if ring_of(item) not in chosen]
    for item in out:
        _left_out.setdefault(ring_of(item), set()).add("not asked for")
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if ring_of(item) in chosen]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = {
            ring: sorted(whys) for ring, whys in _left_out.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    """What a worker left out, for the end of the run. One that crashed has said nothing."""
    for ring, whys in getattr(node, "workeroutput", {}).get("left_out", {}).items():
        _left_out.setdefault(ring, set()).update(whys)


def pytest_terminal_summary(terminalreporter) -> None:
    """What each ring did, so that a ring that was left out cannot look green."""
    done: dict[str, int] = {}
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            ring = dict(report.user_properties).get("ring", "unit")
            done[ring] = done.get(ring, 0) + 1
    terminalreporter.section("rings")
    for ring in RINGS:
        why = "; ".join(sorted(_left_out.get(ring, ())))
        left = f"left out: {why} (needs {NEEDS.get(ring, 'nothing')})" if why else ""
        ran = f"{done[ring]} tests ran" if ring in done else ""
        terminalreporter.write_line(f"{ring:8}{', '.join(filter(None, (ran, left))) or 'no test'}")


def lacking(ring: str, why: str) -> None:
    """Leave this test out, or fail it where the ring was said to be required."""
    _left_out.setdefault(ring, set()).add(why)
    if ring in words("APEXLAB_REQUIRE", ""):
        pytest.fail(f"the ring {ring} is required here, and {why}", pytrace=False)
    pytest.skip(f"{ring}: {why}")


def load_script(path: Path):
    """A script of the repository as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


torch_cpu = load_script(ROOT / "tests" / "torch_cpu.py")


@pytest.fixture(scope="session")
def standin_tools():
    """The functions of tests/standin/build_wheel.py."""
    return load_script(ROOT / "tests" / "standin" / "build_wheel.py")


@dataclass(frozen=True)
class CudaEnv:
    """`python` has apexlab, torch 2.11.0+cu130 and what compiles; `cuda_home` has nvcc 13.0."""

    python: Path
    cuda_home: Path
    site: Path

    @property
    def apexlab(self) -> Path:
        return self.python.with_name("apexlab")

    def environ(self, **more: str) -> dict[str, str]:
        return {**os.environ, "CUDA_HOME": str(self.cuda_home), **more}


@pytest.fixture(scope="session")
def cuda_env() -> CudaEnv:
    """The environment of `make try`, made by its own script; nothing may be installed into it."""
    if not shutil.which("g++"):
        lacking("cuda", "there is no g++")
    script = load_script(ROOT / "build" / "scripts" / "try_it.py")
    folder = ROOT / ".try"
    try:
        script.check_host(folder)
        folder.mkdir(exist_ok=True)
        with torch_cpu.alone("try"):
            toolkit = script.make_toolkit(folder)
            bin_ = script.make_light(folder / "tests", toolkit)
    except script.TryError as error:
        lacking("cuda", f"its environment could not be made: {error}")
    return CudaEnv(bin_ / "python", toolkit / "nvidia" / "cu13", toolkit)


@pytest.fixture(scope="session")
def torch_python() -> Path:
    """A Python with a CPU build of torch, verify and bench; nothing may be installed into it."""
    try:
        return torch_cpu.whole()
    except torch_cpu.NoTorchError as error:
        lacking("torch", str(error))


@pytest.fixture(scope="session")
def engine():
    """The container engine, through the Docker SDK."""
    import docker  # a dependency of apexlab-build: its absence is a fault, and no reason to skip

    try:
        client = docker.from_env()
        client.ping()
    except docker.errors.DockerException as error:
        lacking("docker", f"no engine answers ({type(error).__name__})")
    if subprocess.run(["docker", "buildx", "version"], capture_output=True).returncode:
        lacking("docker", "docker has no buildx")
    return client


@pytest.fixture(scope="session")
def registry_tools() -> None:
    """Programs of Debian for the tests of publishing."""
    for program in ("docker-registry", "cosign", "openssl"):
        if shutil.which(program) is None:
            lacking("docker", f"there is no {program}")


@pytest.fixture(scope="session")
def chromium():
    """A headless Chromium of Debian's, through playwright."""
    found = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium"))), None)
    if found is None:
        lacking("browser", "there is no Chromium")
    from playwright.sync_api import sync_playwright  # of the group dev

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found)
        yield browser
        browser.close()


@dataclass(frozen=True)
class Gpu:
    """A Python whose torch sees the GPUs, its variables, how many GPUs, and their architecture."""

    python: Path
    environ: dict[str, str]
    count: int
    arch: str


def probed(python: Path, environ: dict[str, str]) -> Gpu | None:
    done = subprocess.run([python, "-c", GPU_PROBE], env=environ, capture_output=True, text=True)
    said = json.loads(done.stdout) if done.returncode == 0 else {"count": 0}
    if not said["count"]:
        return None
    return Gpu(python, {**environ, "CUDA_HOME": environ.get("CUDA_HOME") or said["home"]},
               said["count"], said["arch"])


@pytest.fixture(scope="session")
def gpu(request) -> Gpu:
    """The running Python if its torch sees a GPU, else the environment of `make try`."""
    if not Path("/dev/nvidiactl").exists():
        lacking("gpu", "there is no NVIDIA GPU")
    found = probed(Path(sys.executable), dict(os.environ))
    if found is None:
        cuda = request.getfixturevalue("cuda_env")
        found = probed(cuda.python, cuda.environ())
    if found is None:
        lacking("gpu", "torch sees no GPU")
    return found
