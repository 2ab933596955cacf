"""What is judged: an installed Apex, in a site-packages folder or in the running environment.

Nothing is imported. torch is located and its version.py read as text, because importing it takes
longer than everything else here together, and may fail for the very reason that is looked for.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from pathlib import Path

from apexlab.verify.found import Found, closed, extension_of, find_files, names_in
from apexlab.verify.record import IMAGE_PATH, Record, read_record

RECORD_NAME = "apexlab-record.json"

_VERSION_LINE = re.compile(r"""^(\w+)\s*(?::[^=\n]*)?=\s*['"]([^'"]*)['"]""", re.MULTILINE)
_PYTHON_FOLDER = re.compile(r"python(\d+)\.(\d+)(t?)")
_INFO = re.compile(r"apex-\d[^-]*\.dist-info")
_PYTHON_FILE = re.compile(r"^(apex/[\w/]+\.py),", re.MULTILINE | re.ASCII)
# setuptools' editable installs: a module that finds what this table maps to.
_EDITABLE = re.compile(r"__editable___apex_\w*finder\.py")
_MAPPED = re.compile(r"""['"]apex['"]\s*:\s*['"]([^'"]+)['"]""")
_MAX_TEXT = 1 << 20


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
class Python:
    """The Python that will import the extensions; `executable` None where there is none here."""

    version: str
    abi: str
    executable: Path | None


@dataclass(frozen=True)
class Subject:
    """What is judged, located: `kind` "site" or "wheel", `label` its place in messages.

    `package` is the folder apex/ that is imported, `clone` another one in the current folder,
    `hidden` are others further down the path; `versions` are those that the dist-infos name (more
    than one: leftovers), `listed` the extensions that the installer wrote down as installed, and
    `lost` the Python files of apex that it wrote down and that are gone.
    `paths` is the whole sys.path of the child that imports; `prepend` only goes before its own.
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
    hidden: tuple[Path, ...] = ()
    listed: frozenset[str] = frozenset()
    lost: tuple[str, ...] = ()

    @property
    def source_tree(self) -> Path | None:
        """The folder of the package, if that is no installation but a source tree: an editable
        install, or a clone on PYTHONPATH."""
        tree = self.package.parent if self.package else None
        return tree if tree and os.path.isfile(tree / "setup.py") else None  # noqa: PTH113

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


def _check_open(name: str, folders: Iterable[Path]) -> None:
    """Raise CannotError where the package `name` is in a folder that may not be read: then import
    does not find it, and it is no less there."""
    for folder in folders:
        names_in(folder / name)


def find_torch(folders: Iterable[Path]) -> Torch | None:
    """The torch that would be imported from `folders`; None if there is none with a version."""
    folders = tuple(folders)
    package = find_package("torch", folders)
    if package is None:
        _check_open("torch", folders)
        return None
    file = package / "version.py"
    if not os.path.isfile(file):  # noqa: PTH113 - False, where Path raises for what is unreadable
        return None
    if not os.access(file, os.R_OK):
        raise closed(file, "permission denied")
    values = dict(_VERSION_LINE.findall(_text(file)))
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


def running_site(record: Record | None = None, record_path: str | None = None) -> Subject:
    """Apex as this interpreter would import it."""
    folders = running_folders()
    # The stdlib's own extension modules are not candidates, and listing them costs time.
    candidates = [folder for folder in folders if folder.name != "lib-dynload"]
    subject = _site(candidates, "this environment", here(), tuple(sys.path), (), record,
                    record_path, IMAGE_PATH)
    return replace(subject, clone=find_clone(subject.package))


def find_hidden(package: Path | None, folders: Iterable[Path]) -> tuple[Path, ...]:
    """Packages apex further down the path, which `package` hides from import."""
    every = (find_package("apex", [folder]) for folder in folders)
    return tuple(dict.fromkeys(one for one in every
                               if one and package and not same(one, package)))


def same(one: Path, other: Path) -> bool:
    """Whether both are there and the same file or folder."""
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # ValueError: a name with a null byte
        return False


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
                          its_own if os.path.exists(its_own) else other)  # noqa: PTH110
    return here()


def _site(
    folders: list[Path], label: str, python: Python, paths: tuple[str, ...],
    prepend: tuple[str, ...], record: Record | None, record_path: str | None,
    image_record: Path | None, more_for_torch: Iterable[Path] = (),
) -> Subject:
    folders = list(dict.fromkeys([*folders, *_more_folders(folders, paths)]))
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
                   paths, prepend, hidden=find_hidden(package, folders), listed=_listed(infos),
                   lost=tuple(_lost(infos[:1])))


def _more_folders(folders: list[Path], paths: tuple[str, ...]) -> Iterator[Path]:
    """Where an editable install says that its source tree is, which import then finds last; and
    the folders in the .pth files of a site-packages folder, unless they are in sys.path anyway."""
    for folder in folders:
        if folder.name not in ("site-packages", "dist-packages"):
            continue
        for name in names_in(folder):
            if _EDITABLE.fullmatch(name) and (mapped := _MAPPED.search(_text(folder / name))):
                yield Path(mapped[1]).parent
            elif name.endswith(".pth") and not paths:
                lines = (line.strip() for line in _text(folder / name).splitlines())
                yield from (folder / line for line in lines
                            if line and not line.startswith(("#", "import ", "import\t"))
                            and os.path.isdir(folder / line))  # noqa: PTH112


def _text(path: Path) -> str:
    """The start of a text file that only adds to what is known; "" where it cannot be read."""
    try:
        # A named pipe in its place would be waited for.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
            return file.read(_MAX_TEXT).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def _listed(infos: Iterable[Path]) -> frozenset[str]:
    """The extensions in the list of files that pip left: what is absent now was lost later."""
    names = (line.split(",")[0].rpartition("/")[2]
             for info in infos for line in _text(info / "RECORD").splitlines())
    return frozenset(filter(None, map(extension_of, names)))


def _lost(infos: Iterable[Path]) -> Iterator[str]:
    """The Python files of apex in pip's list that are gone, also as compiled files."""
    for info in infos:
        for name in _PYTHON_FILE.findall(_text(info / "RECORD")):
            if not any(os.path.lexists(info.parent / f"{name}{end}") for end in ("", "c")):
                yield name


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
        if names := [name for name in names_in(folder) if _INFO.fullmatch(name)]:
            return [folder / name for name in names]
    return []
