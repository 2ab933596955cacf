"""A plan: one cell of the matrix resolved into concrete images, indexes, versions and arguments."""

from __future__ import annotations

from dataclasses import dataclass

from apexlab.verify.arch import Arch, format_archs


@dataclass(frozen=True)
class Plan:
    """Everything that an image or a wheel is built from. Made by `resolve`, never by hand.

    torch is the patch version ("2.4.1") and cuda the minor one ("12.4"); torch_requirement is
    what pip is given, torch_index the index it needs ("" is PyPI); cuda_image is the version in
    the image's tag ("12.4.1"); python_is_os says that the base brings this Python itself; ref is
    a full commit; evidence is "none", "reported", "built" or "proven", and evidence_source says
    who says so, or what is known without a source ("" for nothing).
    """

    torch: str
    torch_requirement: str
    torch_index: str
    cuda: str
    cuda_image: str
    os: str
    python: str
    python_is_os: bool
    ref: str
    style: str
    archs: tuple[Arch, ...]
    profile: str
    flags: tuple[str, ...]
    extensions: tuple[str, ...]
    cxx_std: str
    evidence: str
    evidence_source: str

    @property
    def slug(self) -> str:
        """The name that tags are made from: `torch2.4-cuda12.4`."""
        return f"torch{'.'.join(self.torch.split('.')[:2])}-cuda{self.cuda}"

    @property
    def arch_list(self) -> str:
        """The architectures as TORCH_CUDA_ARCH_LIST takes them."""
        return format_archs(self.archs)
