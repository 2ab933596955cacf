"""What is judged: an installed Apex, in a site-packages folder or in the running environment.

Nothing is imported. torch is located and its version.py read as text, because importing it takes
longer than everything else here together, and may fail for the very reason that is looked for.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

from apexlab.verify.errors import CannotError
from apexlab.verify.record import IMAGE_PATH, Record, parse_record

RECORD_NAME = "apexlab-record.json"
MODULE, LIBRARY, PYTHON = "module", "library", "python"

_FILE = re.compile(
    r"_?(?P<name>[A-Za-z]\w*?)(\.cpython-(?P<tag>\d+[a-z]*)(-[\w-]+)?|\.abi3)?\.so")
_VERSION_LINE = re.compile(r"""^(\w+)\s*(?::[^=\n]*)?=\s*['"]([^'"]*)['"]""", re.MULTILINE)
_LAYOUT_FOLDERS = ("", "apex", "apex/_extensions")
_PYTHON_FOLDER = re.compile(r"python(\d+)\.(\d+)(t?)")


@dataclass(frozen=True)
class Torch:
    """The installed torch, as its version.py has it; `lib` holds its libraries."""

    version: str
    cuda: str | None
    git: str | None
    lib: Path

    @property
    def cuda_major(self) -> int | None:
        return int(self.cuda.split(".")[0]) if self.cuda and self.cuda[0].isdigit() else None


@dataclass(frozen=True)
class Found:
    """One extension's file. `layout` is "module" (imported by name), "library" (loaded through
    torch.ops) or "python" (a shim without a library); `tag` its Python tag such as "311"."""

    name: str
    path: Path
    layout: str
    tag: str | None

    @property
    def stem(self) -> str:
        """What it is imported as: the file name up to its first dot."""
        return self.path.name.split(".")[0]


@dataclass(frozen=True)
class Python:
    """The Python that will import the extensions; `executable` None where there is none here."""

    version: str
    abi: str
    executable: Path | None


@dataclass(frozen=True)
class Subject:
    """What is judged, located: `kind` "site" or "wheel", `label` its place in messages.

    `paths` is the whole sys.path of the child that imports; `prepend` only goes before its own.
    """

    kind: str
    label: str
    python: Python
    torch: Torch | None
    files: Mapping[str, Found]
    has_package: bool
    package_version: str | None
    record: Record | None
    record_path: str | None
    paths: tuple[str, ...] = ()
    prepend: tuple[str, ...] = ()
    platform: str = ""

    def find(self, name: str) -> Found | None:
        """The file of the extension `name`, which may be written with its leading underscore."""
        return self.files.get(name) or self.files.get(name.removeprefix("_"))


def here() -> Python:
    """The running interpreter."""
    major, minor = sys.version_info[:2]
    return Python(f"{major}.{minor}", f"{major}{minor}{sys.abiflags}", Path(sys.executable))


def running_folders() -> tuple[Path, ...]:
    """The folders that this interpreter imports from; never the current directory."""
    return tuple(Path(entry) for entry in sys.path if entry and Path(entry).is_dir())


def find_torch(folders: Iterable[Path]) -> Torch | None:
    """The torch that would be imported from `folders`; None if there is none with a version."""
    spec = PathFinder.find_spec("torch", [str(folder) for folder in folders])
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    try:
        text = (package / "version.py").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    values = dict(_VERSION_LINE.findall(text))
    if "__version__" not in values:
        return None
    return Torch(values["__version__"], values.get("cuda"), values.get("git_version"),
                 package / "lib")


def find_files(folders: Iterable[Path], abi: str) -> dict[str, Found]:
    """Every file in `folders` that can be an extension of Apex, by its name.

    The first folder wins, as it does for import; within one, a file for this Python.
    """
    found: dict[str, Found] = {}
    for folder in folders:
        here: dict[str, Found] = {}
        for layout in _LAYOUT_FOLDERS:
            for entry in _files_of(folder / layout, layout):
                before = here.get(entry.name)
                if before is None or _rank(entry, abi) < _rank(before, abi):
                    here[entry.name] = entry
        found = {**here, **found}
    return found


def _rank(entry: Found, abi: str) -> tuple[bool, bool, bool]:
    return (entry.layout == PYTHON, entry.tag not in (None, abi), entry.layout == LIBRARY)


def _files_of(folder: Path, layout: str) -> list[Found]:
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - thousands of names, and no Path each
    except OSError:
        return []
    found = []
    for name in names:
        if match := _FILE.fullmatch(name):
            kind = LIBRARY if name.startswith("_") else MODULE
            found.append(Found(match["name"], folder / name, kind, match["tag"]))
        elif layout == "apex/_extensions" and name.endswith(".py") and not name.startswith("_"):
            # A shim: it loads the library of its name, or is all there is (apex_C).
            found.append(Found(name.removesuffix(".py"), folder / name, PYTHON, None))
    return found


def running_site(record: Record | None = None, record_path: str | None = None) -> Subject:
    """Apex as this interpreter would import it."""
    folders = running_folders()
    # The stdlib's own extension modules are not candidates, and listing them costs time.
    candidates = [folder for folder in folders if folder.name != "lib-dynload"]
    return _site(candidates, "this environment", here(), tuple(sys.path), (), record, record_path,
                 IMAGE_PATH)


def folder_site(folder: Path, record: Record | None = None, record_path: str | None = None,
                ) -> Subject:
    """Apex in the site-packages folder `folder`, imported with that environment's Python."""
    folder = folder.resolve()
    return _site([folder], str(folder), python_of(folder), (), (str(folder),), record,
                 record_path, None)


def python_of(folder: Path) -> Python:
    """The Python of the environment that a site-packages folder belongs to; else the running one,
    which is also taken for a bare folder (pip install --target)."""
    for parent in folder.parents:
        if match := _PYTHON_FOLDER.fullmatch(parent.name):
            version = f"{match[1]}.{match[2]}"
            its_own = parent.parents[1] / "bin" / f"python{version}{match[3]}"
            running = here()
            other = running.executable if version == running.version else None
            return Python(version, f"{match[1]}{match[2]}{match[3]}",
                          its_own if its_own.exists() else other)
    return here()


def _site(
    folders: list[Path], label: str, python: Python, paths: tuple[str, ...],
    prepend: tuple[str, ...], record: Record | None, record_path: str | None,
    image_record: Path | None,
) -> Subject:
    package = next((folder for folder in folders if (folder / "apex").is_dir()), None)
    infos = [info for folder in folders for info in sorted(folder.glob("apex-*.dist-info"))]
    if record is None:
        places = [info / RECORD_NAME for info in infos] + ([image_record] if image_record else [])
        place = next((place for place in places if place.is_file()), None)
        if place is not None:
            record, record_path = read_record(place), str(place)
    version = infos[0].name.removeprefix("apex-").removesuffix(".dist-info") if infos else None
    return Subject(
        "site", label, python, find_torch(folders), find_files(folders, python.abi),
        package is not None, version, record, record_path, paths, prepend)


def read_record(path: Path) -> Record:
    """The record in the file `path`. Raises CannotError."""
    try:
        return parse_record(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise CannotError(f"The build record {path} cannot be read: {error}. Give the right one "
                          "with --record, or build again.") from error
