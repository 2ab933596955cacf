"""The packages in an image, from dpkg's list and from Python's metadata. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from email.parser import BytesHeaderParser

from apexlab.build.publish.contents import DPKG


@dataclass(frozen=True, order=True)
class Package:
    """`kind` is "deb" or "pypi", as package URLs have it; `home` is where it lies, for Python."""

    kind: str
    name: str
    version: str
    arch: str = ""
    home: str = ""


def of_files(files: Mapping[str, bytes]) -> tuple[Package, ...]:
    """All packages that these files of the image speak of, sorted."""
    return tuple(sorted({*_debian(files.get(DPKG, b"")), *_python(files)}))


def _debian(status: bytes) -> Iterator[Package]:
    for paragraph in status.split(b"\n\n"):
        fields = BytesHeaderParser().parsebytes(paragraph.lstrip(b"\n"))
        # "deinstall ok config-files": removed, with its settings left behind.
        if str(fields.get("Status", "")).endswith(" installed") and fields["Package"]:
            yield Package("deb", str(fields["Package"]), str(fields["Version"]),
                          str(fields["Architecture"] or ""))


def _python(files: Mapping[str, bytes]) -> Iterator[Package]:
    for path, content in files.items():
        if path.endswith("/METADATA"):
            fields = BytesHeaderParser().parsebytes(content)
            if fields["Name"]:
                yield Package("pypi", str(fields["Name"]), str(fields["Version"] or ""),
                              home="/" + path.rpartition("/")[0].rpartition("/")[0])


def has(packages: Iterable[Package], name: str) -> bool:
    """Whether this distribution of Python is there."""
    return any(one.kind == "pypi" and one.name == name for one in packages)
