"""`inspect` against two witnesses that nobody here wrote, on binaries that nobody here wrote.

NVIDIA's cuobjdump answers for the device code, pyelftools for the ELF structures. Where they differ
from us, DIFFERENCES says how and why, and a difference that has gone away is a failure too.
"""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

from apexlab.verify import anatomy, binary, kernels

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "oracles"
PACKAGES = ("nvidia-cuda-cuobjdump==13.5.37", "torchvision==0.26.0", "xformers==0.0.35",
            "bitsandbytes==0.50.2")
MODES = {
    "default": ["--compress-mode=default"], "size": ["--compress-mode=size"],
    "speed": ["--compress-mode=speed"], "balance": ["--compress-mode=balance"],
    "none": ["--compress-mode=none"], "all": ["-Xfatbin", "-compress-all"],
    "speed-all": ["--compress-mode=speed", "-Xfatbin", "-compress-all"],
}
TORCH = ("libtorch_cuda.so", "libtorch_cuda_linalg.so", "libtorch_nvshmem.so", "libc10_cuda.so",
         "libtorch_cpu.so", "libtorch_python.so")
BITSANDBYTES = tuple(f"libbitsandbytes_cuda{cuda}.so"
                     for cuda in (118, 121, 124, 126, 128, 130, 132))

REFUSED, NO_CODE, FAMILY = "refused", "no code", "family"
# What cuobjdump says differently, and why that is no fault of ours.
DIFFERENCES = {
    "libbitsandbytes_cuda121.so": (
        REFUSED, "It prints \"Invalid ELF\". pyelftools reads the file without complaint, its "
        "fatbin has the same form as that of the six variants beside it, and so have its cubins."),
    "libc10_cuda.so": (NO_CODE, "It ends with 255 where a file has no device code; so say we."),
    "libtorch_cpu.so": (NO_CODE, "As libc10_cuda.so."),
    "libtorch_python.so": (NO_CODE, "As libc10_cuda.so."),
    "image.so": (NO_CODE, "As libc10_cuda.so."),
    "family.so": (FAMILY, "It prints the machine code for sm_100f as sm_100: it knows no suffix "
                  "for a family there, but does for PTX."),
}


@pytest.fixture(scope="module")
def oracles(lacking_cuda, cuda_env):
    """The unpacked wheels, downloaded once."""
    stamp = CACHE / "ok"
    if not stamp.exists() or stamp.read_text() != "\n".join(PACKAGES):
        done = subprocess.run(
            [cuda_env.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
             "--no-deps", "--upgrade", "--target", CACHE, *PACKAGES],
            capture_output=True, text=True)
        if done.returncode:
            lacking_cuda(f"the witnesses cannot be downloaded: {done.stderr.strip()[-300:]}")
        stamp.write_text("\n".join(PACKAGES))
    return CACHE


@pytest.fixture(scope="module")
def lacking_cuda(request):
    """Leaves the test out; conftest's own function, as tests/conftest.py has loaded it."""
    plugin = request.config.pluginmanager.get_plugin(str(ROOT / "tests" / "conftest.py"))
    return lambda why: plugin.lacking("cuda", why)


@pytest.fixture(scope="module")
def find(oracles, cuda_env, nvcc):
    """The path of a binary by its name."""
    def path(name: str) -> Path:
        if name in TORCH:
            return cuda_env.site / "torch" / "lib" / name
        if name in BITSANDBYTES:
            return oracles / "bitsandbytes" / name
        if name in ("xformers", "torchvision"):
            return oracles / name / "_C.so"
        if name == "image.so":
            return oracles / "torchvision" / name
        if name == "family.so":
            return nvcc(*gencode("100f:sm_100f", "120f:compute_120f", "75:sm_75"))
        return nvcc(*gencode("80:sm_80", "90a:sm_90a", "90:compute_90"), *MODES[name])
    return path


def gencode(*pairs: str) -> list[str]:
    return [f"-gencode=arch=compute_{a},code={b}" for a, _, b in
            (pair.partition(":") for pair in pairs)]


@pytest.fixture(scope="module")
def cuobjdump(oracles):
    program = next(oracles.glob("nvidia/cu*/bin/cuobjdump"))
    program.chmod(0o755)

    def ask(flag: str, path: Path):
        done = subprocess.run([program, flag, path], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    return ask


def listed(text: str) -> Counter:
    return Counter(re.findall(r"\.(sm_\d+[af]?)\.(?:cubin|ptx)$", text, re.MULTILINE))


def ours(path: Path, kind: str) -> Counter:
    found = Counter()
    for one in anatomy.read(path).code:
        if one.kind == kind:
            found[one.target.replace("compute_", "sm_")] += one.entries
    return found


NAMES = (*MODES, "family.so", "xformers", "torchvision", "image.so", *BITSANDBYTES, *TORCH)


@pytest.mark.cuda
@pytest.mark.parametrize("name", NAMES)
def test_targets_and_ptx_are_those_of_cuobjdump(name, find, cuobjdump):
    path = find(name)
    machine, ptx = ours(path, "sass"), ours(path, "ptx")
    code, text = cuobjdump("--list-elf", path)
    kind, _ = DIFFERENCES.get(name, (None, ""))
    if kind == REFUSED:
        assert code == 1 and "Invalid ELF" in text
        assert machine == Counter(f"sm_{arch}" for arch in (60, 70, 75, 80, 86, 89, 90))
        return
    if kind == NO_CODE:
        assert code == 255 and "does not contain device code" in text
        assert not machine and not ptx
        return
    if kind == FAMILY:
        assert machine["sm_100f"] == listed(text)["sm_100"] > 0
        machine["sm_100"] = machine.pop("sm_100f")
    assert machine == listed(text)
    assert machine
    assert ptx == listed(cuobjdump("--list-ptx", path)[1])


def entry_points(text: str) -> dict[str, set[str]]:
    """Per target, the entry points in what --dump-elf-symbols prints."""
    found: dict[str, set[str]] = {}
    target = ""
    for line in text.splitlines():
        if match := re.fullmatch(r"arch = (sm_\w+)", line):
            target = match[1]
            found.setdefault(target, set())
        elif match := re.fullmatch(r"FUNC +\w+ +\w+ +ENTRY +(\S+)", line.strip()):
            found[target].add(match[1])
    # It puts PTX under a machine code's name, without symbols.
    return {target: names for target, names in found.items() if names}


def without_cubs(names) -> set[str]:
    kept = {name for name in names if "11EmptyKernel" not in name}
    assert len(kept) == len(names) - 1 > 100
    return kept


@pytest.mark.cuda
@pytest.mark.parametrize("name", [
    *MODES, "xformers", "torchvision", *BITSANDBYTES, *TORCH[:3]])
def test_kernel_names_are_the_entry_points_of_cuobjdump(name, find, cuobjdump):
    path = find(name)
    found = {one.target: set(one.names) for one in anatomy.read(path, with_kernels=True).kernels}
    if DIFFERENCES.get(name, ("",))[0] == REFUSED:
        # The variant next to it is compiled from the same sources, with another version of CUB,
        # which has one empty kernel of its own.
        other = kernels.names(find("libbitsandbytes_cuda124.so"))
        assert without_cubs(set().union(*found.values())) == without_cubs(other)
        return
    code, text = cuobjdump("--dump-elf-symbols", path)
    assert code == 0
    assert found == entry_points(text)
    assert all(found.values())
    assert kernels.names(path) == set().union(*found.values())


@pytest.mark.cuda
@pytest.mark.parametrize("name", [
    "xformers", "torchvision", *BITSANDBYTES, "libtorch_cuda_linalg.so", "none"])
def test_the_names_in_the_host_code_hold_all_cpp_kernels(name, find):
    mangled = {one for one in kernels.names(find(name)) if one.startswith("_Z")}
    assert mangled and mangled <= kernels.host_names(find(name))


@pytest.mark.cuda
@pytest.mark.parametrize("name", [
    "none", "xformers", "torchvision", "image.so", *BITSANDBYTES, "libtorch_cuda_linalg.so",
    "libc10_cuda.so", "libtorch_python.so"])
def test_elf_facts_are_those_of_pyelftools(name, find):
    path = find(name)
    found, told = binary.read_binary(path, digest=False), anatomy.read(path)
    with path.open("rb") as file:
        elf = ELFFile(file)
        dynamic = next(one for one in elf.iter_sections() if isinstance(one, DynamicSection))
        tags = list(dynamic.iter_tags())
        needed = tuple(tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED")
        paths = [getattr(tag, tag.entry.d_tag[3:].lower()) for tag in tags
                 if tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH")]
        versions = elf.get_section_by_name(".gnu.version")
        undefined = [
            symbol.name for number, symbol in enumerate(
                elf.get_section_by_name(".dynsym").iter_symbols())
            if number and symbol["st_shndx"] == "SHN_UNDEF"
            and symbol["st_info"]["bind"] != "STB_WEAK"
            and versions.get_symbol(number)["ndx"] in ("VER_NDX_LOCAL", "VER_NDX_GLOBAL")]
        asked = {aux.name for one in elf.iter_sections() if isinstance(one, GNUVerNeedSection)
                 for _, auxiliaries in one.iter_versions() for aux in auxiliaries}
        machine = elf["e_machine"].removeprefix("EM_").lower()
    assert (found.needed, told.needed) == (needed, needed)
    assert list(found.runpath) == [part for text in paths for part in text.split(":")]
    assert list(found.undefined) == undefined
    assert found.machine == machine
    for kind, version in told.symbol_versions.items():
        assert f"{kind}_{version}" in asked
    for one in asked:
        kind, _, version = one.partition("_")
        if kind in told.symbol_versions and version[0].isdigit():
            assert key(version) <= key(told.symbol_versions[kind])


def key(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


@pytest.mark.cuda
def test_the_ties_to_torch_are_those_that_the_projects_state(find):
    ties = {name: (one.torch, one.cxx_abi, one.cuda_major) for name in
            ("xformers", "torchvision", "libbitsandbytes_cuda118.so", "libc10_cuda.so")
            for one in [anatomy.read(find(name))]}
    assert ties == {
        "xformers": ("stable", "unknown", 12),  # its wheels say py39-none: any torch from 2.10
        "torchvision": ("c++", "new", 13),
        "libbitsandbytes_cuda118.so": ("none", "unknown", 11),
        "libc10_cuda.so": ("c++", "new", 13)}
