"""The static checks as functions, for other parts of apexlab: nothing is imported or run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from apexlab.verify import site, wheel
from apexlab.verify.arch import Arch
from apexlab.verify.check import Options, check
from apexlab.verify.record import Record
from apexlab.verify.report import Report


def verify_wheel(
    path: Path, record: Record | None = None, *,
    own_targets: Mapping[str, tuple[str, ...]] | None = None,
    require: tuple[str, ...] = (), arch: Arch | None = None,
) -> Report:
    """Judge the wheel at `path` against `record`, or against the record inside it.

    `own_targets` makes it the gate of a build, whose record was written from this very wheel: the
    device code of each extension has to hold all of `record.archs`, save for the extensions named
    here, which have to hold these targets ("sm_90", "compute_90") instead; pass {} for none.
    Without it an extension has to hold what the record says was built.
    Raises UnreadableError for a wheel that cannot be read.
    """
    with wheel.unpacked(path, record) as subject:
        return check(subject, Options(require=require, arch=arch, own_targets=own_targets))


def verify_site(
    folder: Path | None = None, record: Record | None = None, *,
    require: tuple[str, ...] = (), arch: Arch | None = None,
) -> Report:
    """Judge the Apex in the site-packages `folder`, or the one that this Python would import."""
    subject = (site.running_site(record) if folder is None
               else site.folder_site(folder, record))
    return check(subject, Options(require=require, arch=arch))
