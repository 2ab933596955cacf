"""What the torch of this environment is and wants, asked once, in a child process.

A child, so that importing torch costs this program no memory while compilers run, and a broken
torch is a message and not a crash.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass

from apexlab.verify.arch import Arch
from apexlab.verify.errors import CannotError

# Runs alone in the child: standard library and torch, no apexlab. For the architectures it asks
# the very function that the build will call, so no table of ours can disagree with it.
_SCRIPT = r"""
import collections, importlib.util, json, os, re, sys, sysconfig
from importlib import metadata
facts = {"packages": {}, "python": "cp%d%d" % sys.version_info[:2],
         "platform": sysconfig.get_platform(), "unknown_archs": [],
         "headers": os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))}
for name in ("setuptools", "wheel", "ninja", "packaging", "torch"):
    try:
        found = importlib.util.find_spec(name) is not None
        facts["packages"][name] = metadata.version(name) if found else None
    except metadata.PackageNotFoundError:
        facts["packages"][name] = None
try:
    import torch
    from torch.utils import cpp_extension
    facts.update(version=torch.__version__, git=torch.version.git_version,
                 cuda=torch.version.cuda, folder=os.path.dirname(torch.__file__),
                 cxx11_abi=bool(torch.compiled_with_cxx11_abi()))
    text = open(cpp_extension.__file__, encoding="utf-8").read()
    counted = collections.Counter(re.findall(r"c\+\+(\d\d)", text))
    facts["cxx_std"] = "c++" + counted.most_common(1)[0][0]
    for arch in sys.argv[1:]:
        os.environ["TORCH_CUDA_ARCH_LIST"] = arch
        try:
            cpp_extension._get_cuda_arch_flags()
        except ValueError:
            facts["unknown_archs"].append(arch)
except Exception as error:
    facts["error"] = "%s: %s" % (type(error).__name__, error)
print("\n" + json.dumps(facts))
"""


@dataclass(frozen=True)
class TorchFacts:
    """What the child said. `packages`: name to version, None where it is not installed; `error`:
    why torch cannot be imported; `unknown_archs`: those that torch's builder refuses; `headers`:
    whether Python.h is there."""

    python: str
    platform: str
    packages: dict[str, str | None]
    version: str = ""
    git: str = ""
    cuda: str | None = None
    cxx11_abi: bool = True
    cxx_std: str = "c++17"
    folder: str = ""
    unknown_archs: tuple[str, ...] = ()
    error: str = ""
    headers: bool = True

    @property
    def release(self) -> str:
        """The version without its local part: `2.6.0`."""
        return self.version.split("+")[0]


def probe(archs: tuple[Arch, ...]) -> TorchFacts:
    """Ask this interpreter's torch. Raises CannotError if the child gives no answer at all."""
    command = [sys.executable, "-c", _SCRIPT, *map(str, archs)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, check=False, cwd="/")
    except subprocess.TimeoutExpired as error:
        raise CannotError(
            "Importing torch did not finish in five minutes, so nothing can be built with it. "
            "Try `python -c 'import torch'` by hand.") from error
    try:
        facts = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError) as error:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise CannotError(
            f"Importing torch ended the process with code {done.returncode} ({last}). This torch "
            "cannot be used here: install it again.") from error
    facts["unknown_archs"] = tuple(facts["unknown_archs"])
    return TorchFacts(**facts)
