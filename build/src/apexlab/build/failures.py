"""Why a build failed, told from its log: a table of patterns and one paragraph for each.

The order matters: what killed the compiler comes before what its death made others say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Failure:
    """A known failure. `cause` may use the pattern's groups as {0}, {1}."""

    code: str
    pattern: re.Pattern[str]
    cause: str


def _failure(code: str, pattern: str, cause: str) -> Failure:
    return Failure(code, re.compile(pattern, re.MULTILINE), cause)


TABLE = (
    _failure(
        "disk-full", r"[Nn]o space left on device|Disk quota exceeded",
        "The disk is full. Free some space, or set TMPDIR to a folder on a larger disk."),
    _failure(
        "memory",
        r"fatal error: Killed signal terminated program|^Killed$|[Kk]illed \(program \w+\)"
        r"|died due to signal 9|internal compiler error: Killed|virtual memory exhausted"
        r"|\bOut of memory\b|std::bad_alloc|MemoryError|Cannot allocate memory",
        "A compiler was killed for want of memory. Run fewer at once with --jobs, or allow more "
        "memory; one of Apex's largest files takes 3 GiB."),
    _failure(
        "header-missing", r"fatal error: ([\w./+-]+): No such file or directory",
        "The header {0} is missing. If it belongs to CUDA, CUDA_HOME points to a toolkit that is "
        "not complete: install its development packages. If it lies below csrc or third_party, "
        "the source was fetched without its submodules."),
    _failure(
        "arch-unsupported",
        r"nvcc fatal\s*:\s*Unsupported gpu architecture '([\w]+)'|"
        r"ValueError: Unknown CUDA arch \(([\w.+]+)\)",
        "The architecture {0} is unknown to this toolkit or torch. If --archs does not name it, "
        "this Apex commit sets it by itself: take a newer commit, or a toolkit that knows it."),
    _failure(
        "ptxas-mismatch", r"ptxas .*Unsupported \.version ([\d.]+); current version is '([\d.]+)'",
        "The parts of the CUDA toolkit are of different versions: one wrote PTX {0}, and ptxas "
        "reads up to {1}. Install nvcc, nvvm and crt of the same version."),
    _failure(
        "compiler-new",
        r"unsupported GNU version! gcc versions later than (\d+)|"
        r"is greater than the maximum required version by CUDA ([\d.]+)",
        "The host compiler is too new for this nvcc (the limit it names: {0}). Install an older "
        "g++, and set CC and CXX to it."),
    _failure(
        "compiler-old", r"is less than the minimum required version by CUDA ([\d.]+)",
        "The host compiler is too old for CUDA {0}, or CXX is a wrapper that does not tell its "
        "version. Install a newer g++, and set CC and CXX to it."),
    _failure(
        "cxx-standard",
        r"#error.*C\+\+(\d\d) or later|C\+\+(\d\d) (?:or later )?compatible compiler is required|"
        r"need 'typename' before 'decltype|need ‘typename’ before ‘decltype",
        "torch's headers ask for a newer C++ standard than the source was compiled with. Take a "
        "newer Apex commit, or the torch that this commit was made for."),
    _failure(
        "ref-torch", r"DeprecatedTypeProperties",
        "This Apex commit is older than the torch it is compiled against (it uses "
        "DeprecatedTypeProperties, which torch has dropped there). Take a newer commit; "
        "`apexlab matrix` lists the pairs that fit."),
    _failure(
        "cuda-mismatch",
        r"Cuda extensions are being compiled with a version of Cuda that does\s*not match|"
        r"The detected CUDA version \(([\d.]+)\) mismatches",
        "nvcc and torch are of different CUDA versions. Point CUDA_HOME to the toolkit of torch's "
        "version."),
    _failure(
        "library-missing", r"cannot find -l([\w-]+)",
        "The linker finds no lib{0}.so. If it is cudart, the toolkit in CUDA_HOME has no such "
        "link: install its runtime's development package, or add the link."),
    _failure(
        "option-unknown", r"nvcc fatal\s*:\s*Unknown option '([\w=+-]+)'",
        "This nvcc does not know the option {0}, which this Apex commit uses. Take an older "
        "commit, or a newer toolkit; `apexlab matrix` lists the pairs that fit."),
    _failure(
        "flag-unknown", r"error: option --([\w-]+) not recognized",
        "This source does not know the flag --{0}, so it was asked in a way that another commit "
        "understands. Give the right commit with --ref."),
    _failure(
        "module-missing", r"ModuleNotFoundError: No module named '([\w.]+)'",
        "setup.py needs the Python package {0}, which is not installed here. Install it beside "
        "torch."),
    _failure(
        "undeclared", r"error: [‘'](u?int\d+_t)[’'] (?:was not declared|does not name a type)",
        "A header of this source relies on an include that newer compilers no longer bring "
        "({0}). Take a newer commit, or an older g++."),
)  # fmt: skip

# As compilers, linkers and nvcc write it; Python's tracebacks, which come after, only repeat it.
_COMPILER_ERROR = re.compile(r"\b(?:error|fatal)\s*:|undefined reference")
_ERROR_LINE = re.compile(r"error|fatal|undefined reference|Traceback|Error:", re.IGNORECASE)
_NOT_AN_ERROR = re.compile(r"^\[\d+/\d+\]|-Werror|error-limit|^\s*(?:INFO|warning)")
_LINES = 6


def classify(log: str, code: int) -> tuple[str, str]:
    """(code, paragraph) for a build that ended with exit `code` and this `log`."""
    for failure in TABLE:
        if found := failure.pattern.search(log):
            groups = [group for group in found.groups() if group]
            return failure.code, failure.cause.format(*(groups or ["not named"]))
    if code in (-9, 137):
        memory = next(failure for failure in TABLE if failure.code == "memory")
        return memory.code, memory.cause
    return "unknown", f"The build ended with code {code}. It said:\n{errors_of(log)}"


def errors_of(log: str) -> str:
    """A few lines: the first that a compiler calls an error, since later ones follow from it; or
    the last that speak of one; or the last at all."""
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines
              if _ERROR_LINE.search(line) and not _NOT_AN_ERROR.search(line)]  # fmt: skip
    first = [line for line in errors if _COMPILER_ERROR.search(line)][:_LINES]
    return "\n".join(f"  {line[:200]}" for line in first or (errors or lines)[-_LINES:])
