"""What setup.py is asked for, and in which words.

pip and setuptools drop build flags in many combinations, with exit code 0. So setup.py is always
run directly, and the flags go in the way that this ref reads: variables, or arguments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from apexlab.build.rows import PROFILES, Matrix
from apexlab.build.source import Source
from apexlab.verify.arch import Arch, format_archs
from apexlab.verify.errors import UsageError
from apexlab.verify.extensions import CORE_FLAGS, of_flags


@dataclass(frozen=True)
class Request:
    """One build: `style` is "env" or "build-option"; `flags` like "cuda_ext"; `extensions` the
    modules they give; `own_targets` the targets of those that set their own."""

    style: str
    flags: tuple[str, ...]
    extensions: tuple[str, ...]
    profile: str
    archs: tuple[Arch, ...]
    own_targets: dict[str, tuple[str, ...]]

    @property
    def environment(self) -> dict[str, str]:
        """The variables that carry the request."""
        variables = {"TORCH_CUDA_ARCH_LIST": format_archs(self.archs)}
        if self.style == "env":
            variables |= {f"APEX_{flag.upper()}": "1" for flag in self.flags}
        return variables

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of setup.py, from the command on."""
        flags = tuple(f"--{flag}" for flag in self.flags) if self.style == "build-option" else ()
        return ("bdist_wheel", *flags)


def make_request(
    matrix: Matrix, source: Source, ref: str | None, cuda: str, profile: str,
    archs: tuple[Arch, ...],
) -> Request:  # fmt: skip
    """The request for `source`; `ref` (a commit, or None) is looked up in the matrix.

    A ref that the matrix does not know gets the core flags, in the style that its setup.py shows.
    """
    if profile not in PROFILES:
        raise UsageError(f"There is no profile {profile!r}. There are {' and '.join(PROFILES)}.")
    known = matrix.ref(ref) if ref else None
    if known is None:
        if profile != "core":
            raise UsageError(
                f"The profile {profile} needs an Apex commit that the matrix knows, and "
                f"{ref or 'this tree'} is not one. Use the profile core, or give --ref.")
        names = tuple(extension.name for extension in of_flags(CORE_FLAGS))
        return Request(style_of(source.setup_text), CORE_FLAGS, names, profile, archs, {})
    flags = known.profile_flags(profile)
    names = known.extensions(flags, cuda)
    own = {name: targets for name in names if (targets := known.targets(name, cuda))}
    return Request(known.style, flags, names, profile, archs, own)


def style_of(setup_text: str) -> str:
    """How a setup.py takes its flags. Refs that know the variables turn them into arguments, and
    setuptools refuses an argument nobody knows, while an unknown variable is ignored in silence:
    so variables only where the text has them."""
    return "env" if re.search(r"APEX_(?:CPP|CUDA)_EXT|[\"']APEX_", setup_text) else "build-option"


def hard_coded_std(texts: list[str]) -> set[int]:
    """The C++ standards that build scripts set themselves (17 of `-std=c++17`)."""
    return {int(found) for text in texts for found in re.findall(r"-std=(?:c|gnu)\+\+(\d\d)", text)}


def cxx_std_override(wanted: str, torch_default: str, hard_coded: set[int]) -> str | None:
    """The standard that must be forced ("c++20"), or None where torch's builder sets the right
    one by itself: it appends its own default unless the extension passes one."""
    least = int(wanted.removeprefix("c++"))
    default = int(torch_default.removeprefix("c++"))
    return wanted if min({default, *hard_coded}) < least else None
