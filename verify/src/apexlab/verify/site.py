"""What is judged: an installed Apex, in a site-packages folder or in the running environment.

Nothing is imported. torch is located and its version.py read as text, because importing it takes
longer than everything else here together, and may fail for the very reason that is looked for.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from pathlib import Path

from apexlab.verify.errors import CannotError
from apexlab.verify.record import IMAGE_PATH, Record, read_record

RECORD_NAME = "apexlab-record.json"
MODULE, LIBRARY, PYTHON = "module", "library", "python"

_FILE = re.compile(
    r"_?(?P<name>[A-Za-z]\w*?)(\.cpython-(?P<tag>\d+[a-z]*)(-[\w-]+)?|\.abi3)?\.so")
_VERSION_LINE = re.compile(r"""^(\w+)\s*(?::[^=\n]*)?=\s*['"]([^'"]*)['"]""", re.MULTILINE)
_LAYOUT_FOLDERS = ("", "apex", "apex/_extensions")
_PYTHON_FOLDER = re.compile(r"python(\d+)\.(\d+)(t?)")
_INFO = re.compile(r"apex-\d[^-]*\.dist-info")
_MAX_VERSION_FILE = 1 << 16


@dataclass(frozen=True)
class Torch:
    """The installed torch, as its version.py has it; `lib` holds its libraries."""

    version: str
    cuda: str | None
    git: str | None
    lib: Path

    @property
    def cuda_major(self) -> int | None:
        found = re.match(r"[0-9]{1,4}(?=\.|$)", self.cuda or "")
        return int(found[0]) if found else None


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

    `package` is the folder apex/ that is imported, `clone` another one in the current folder;
    `versions` are those that the dist-infos name (more than one: leftovers). `paths` is the whole
    sys.path of the child that imports; `prepend` only goes before its own.
    """

    kind: str
    label: str
    python: Python
    torch: Torch | None
    files: Mapping[str, Found]
    package: Path | None
    versions: tuple[str, ...]
    record: Record | None
    record_path: str | None
    paths: tuple[str, ...] = ()
    prepend: tuple[str, ...] = ()
    platform: str = ""
    clone: Path | None = None

    def find(self, name: str) -> Found | None:
        """The file of the extension `name`, which may be written with its leading underscore."""
        return self.files.get(name) or self.files.get(name.removeprefix("_"))


def here() -> Python:
    """The running interpreter."""
    major, minor = sys.version_info[:2]
    return Python(f"{major}.{minor}", f"{major}{minor}{sys.abiflags}", Path(sys.executable))


def running_folders() -> tuple[Path, ...]:
    """The folders that this interpreter imports from, without the empty entry, which stands for
    the current folder."""
    # A folder that may not be read is passed over, as import does: /root's, for --user 1000.
    return tuple(Path(entry) for entry in sys.path
                 if entry and os.path.isdir(entry)  # noqa: PTH112
                 and os.access(entry, os.R_OK | os.X_OK))


def find_torch(folders: Iterable[Path]) -> Torch | None:
    """The torch that would be imported from `folders`; None if there is none with a version."""
    package = find_package("torch", folders)
    if package is None:
        return None
    file = package / "version.py"
    if not os.path.isfile(file):  # noqa: PTH113 - False, where Path raises for what is unreadable
        return None
    try:
        with file.open("rb") as opened:
            text = opened.read(_MAX_VERSION_FILE).decode("utf-8", "replace")
    except OSError:
        return None
    values = dict(_VERSION_LINE.findall(text))
    if "__version__" not in values:
        return None
    return Torch(values["__version__"], values.get("cuda"), values.get("git_version"),
                 package / "lib")


def find_package(name: str, folders: Iterable[Path]) -> Path | None:
    """The folder of the package `name` that would be imported from `folders`. One without
    __init__.py, as an interrupted uninstall leaves it, counts for nothing."""
    spec = PathFinder.find_spec(name, [str(folder) for folder in folders])
    origin = Path(spec.origin) if spec and spec.origin else None
    return origin.parent if origin and origin.stem == "__init__" else None


def find_files(folders: Iterable[Path], abi: str, package: Path | None) -> dict[str, Found]:
    """Every file in `folders` that can be an extension of Apex, by its name.

    The first folder wins, as it does for import; within one, a file for this Python. Inside of
    apex/ only the one `package` that is imported counts.
    """
    found: dict[str, Found] = {}
    for folder in folders:
        here: dict[str, Found] = {}
        own = package is None or folder == package.parent
        for layout in _LAYOUT_FOLDERS if own else ("",):
            for entry in _files_of(folder / layout, layout):
                before = here.get(entry.name)
                if before is None or _rank(entry, abi) < _rank(before, abi):
                    here[entry.name] = entry
        found = {**here, **found}
    return found


def _rank(entry: Found, abi: str) -> tuple[bool, bool, bool]:
    return (entry.layout == PYTHON, entry.tag not in (None, abi), entry.layout == LIBRARY)


def _files_of(folder: Path, layout: str) -> list[Found]:
    found = []
    for name in _names(folder):
        if match := _FILE.fullmatch(name):
            kind = LIBRARY if name.startswith("_") else MODULE
            found.append(Found(match["name"], folder / name, kind, match["tag"]))
        elif layout == "apex/_extensions" and name.endswith(".py") and not name.startswith("_"):
            # A shim: it loads the library of its name, or is all there is (apex_C).
            found.append(Found(name.removesuffix(".py"), folder / name, PYTHON, None))
    return found


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - thousands of names, and no Path each
    except PermissionError as error:
        raise CannotError(f"The folder {folder} cannot be read, so nothing is said about what it "
                          "holds. Run this as a user who may read it.") from error
    except OSError:
        return []


def running_site(record: Record | None = None, record_path: str | None = None) -> Subject:
    """Apex as this interpreter would import it."""
    folders = running_folders()
    # The stdlib's own extension modules are not candidates, and listing them costs time.
    candidates = [folder for folder in folders if folder.name != "lib-dynload"]
    subject = _site(candidates, "this environment", here(), tuple(sys.path), (), record,
                    record_path, IMAGE_PATH)
    return replace(subject, clone=find_clone(subject.package))


def find_clone(package: Path | None) -> Path | None:
    """A package apex in the current folder that is not `package`: a program that is started beside
    a clone imports the clone, whatever is installed."""
    try:
        clone = find_package("apex", [Path.cwd()])
        return clone if clone and (package is None or not clone.samefile(package)) else None
    except OSError:  # the current folder was removed
        return None


def folder_site(folder: Path, record: Record | None = None, record_path: str | None = None,
                ) -> Subject:
    """Apex in the site-packages folder `folder`, imported with that environment's Python."""
    folder = folder.resolve()
    python = python_of(folder)
    # torch may lie elsewhere on this Python's path: pip install --target, a .pth file.
    more = running_folders() if python == here() else ()
    return _site([folder], str(folder), python, (), (str(folder),), record, record_path, None, more)


def python_of(folder: Path) -> Python:
    """The Python of the environment that a site-packages folder belongs to; else the running one,
    which is also taken for a bare folder (pip install --target)."""
    if folder.is_relative_to(Path(sys.prefix).resolve()):
        return here()
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
    image_record: Path | None, more_for_torch: Iterable[Path] = (),
) -> Subject:
    package = find_package("apex", folders)
    infos = _infos(folders)
    if record is None:
        places = [info / RECORD_NAME for info in infos] + ([image_record] if image_record else [])
        place = next((place for place in places if _is_there(place)), None)
        if place is not None:
            record, record_path = read_record(place), str(place)
    versions = tuple(info.name.removeprefix("apex-").removesuffix(".dist-info") for info in infos)
    torch, files = find_torch([*folders, *more_for_torch]), find_files(folders, python.abi, package)
    return Subject("site", label, python, torch, files, package, versions, record, record_path,
                   paths, prepend)


def _is_there(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # what hinders us is said when it is read; it is not "no record"


def _infos(folders: Iterable[Path]) -> list[Path]:
    """Apex's dist-info folders: those of the first place that has one, for it is the one that is
    imported, and another place's record would speak of other files."""
    for folder in folders:
        if names := [name for name in _names(folder) if _INFO.fullmatch(name)]:
            return [folder / name for name in names]
    return []
