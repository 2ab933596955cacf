"""Which kernels each extension registers, and which torch does, read from their binaries.

Of an extension the names are exact, from its machine code. Of torch all that its kernels may be
called is enough, since a name that torch might own is no extension's: its host code has them all,
and tells them in milliseconds, where unpacking its machine code takes seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from apexlab.verify import demangle, kernels
from apexlab.verify.attribute import Registered
from apexlab.verify.binary import read_binary
from apexlab.verify.errors import UnreadableError
from apexlab.verify.found import PYTHON, Found


def read(files: Mapping[str, Found], torch_lib: Path) -> Registered:
    """The kernels of the extensions `files`, by name, and of the torch whose libraries lie in
    `torch_lib`. A binary that cannot be read is left without names, which is not "no kernels"."""
    binaries = {name: found.path for name, found in files.items() if found.layout != PYTHON}
    mangled, dynamic = {}, set()
    for name, path in binaries.items():
        try:
            mangled[name] = kernels.names(path)
            if read_binary(path).cuda_major is not None:
                dynamic.add(name)
        except UnreadableError:
            continue
    own = torch_names(torch_lib)
    readable = demangle.demangled({*own, *(name for names in mangled.values() for name in names)})
    return Registered(
        names={name: frozenset(readable[one] for one in names) for name, names in mangled.items()},
        paths={name: str(path.resolve()) for name, path in binaries.items()},
        dynamic=frozenset(dynamic),
        torch=frozenset(readable[one] for one in own))


def torch_names(torch_lib: Path) -> frozenset[str]:
    """All names that kernels of torch's libraries may have, mangled. Empty where one of them cannot
    be read: then no kernel can be told from torch's, and no instrument passes its controls."""
    try:
        return frozenset().union(
            *(kernels.host_names(path) for path in sorted(torch_lib.glob("lib*.so*"))))
    except UnreadableError:
        return frozenset()
