"""Apex's own Python modules: are they importable, and do they use what loads by itself?

Apex catches import errors and goes on without the extension. Where the extension itself is at
fault that is said elsewhere, once; here is said what only the Python side shows. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from apexlab.verify.findings import finding
from apexlab.verify.found import LIBRARY, Found
from apexlab.verify.process import how_it_ended
from apexlab.verify.report import Finding
from apexlab.verify.site import same

# Each module with the extension that it imports. A ref without the module is no fault.
WRAPPERS = {
    "apex": "",
    "apex.multi_tensor_apply": "amp_C",
    "apex.optimizers": "amp_C",
    "apex.normalization": "fused_layer_norm_cuda",
    "apex.contrib.optimizers": "fused_adam_cuda",
    "apex.fused_dense": "fused_dense_cuda",
    "apex.mlp": "mlp_cuda",
}
_SHIMS = "apex._extensions."

# Something of torch that is not in this torch. Read as "torch has no ...".
_TORCH_LACKS = (
    (re.compile(r"module '(torch[\w.]*)' has no attribute '(\w+)'"), "{0}.{1}"),
    (re.compile(r"cannot import name '(\w+)' from '(torch[\w.]*)'"), "{1}.{0}"),
    (re.compile(r"No module named '(torch\.[\w.]+)'"), "{0}"),
)


@dataclass(frozen=True)
class State:
    """What is known of the extensions: those that load by themselves, those with an error of
    their own, those of them that end or stop a process which imports them, all that is known by
    name, and the texts of their import errors."""

    sound: frozenset[str]
    broken: frozenset[str]
    violent: frozenset[str]
    known: frozenset[str]
    texts: frozenset[str]


def names(files: Iterable[Found]) -> list[str]:
    """The modules to import: Apex's own, and the shims of its libraries."""
    return [*WRAPPERS, *(f"{_SHIMS}{one.name}" for one in files if one.shim)]


def lost(files: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Apex's own modules whose files are gone; import cannot tell this from a ref without them."""
    for name in WRAPPERS:
        path = name.replace(".", "/")
        yield from ((name, file) for file in files if file in (f"{path}/__init__.py", f"{path}.py"))


def judged(answers: Mapping[str, Mapping[str, Any]], files: Mapping[str, Found], package: Path,
           state: State, fill: Mapping[str, str]) -> list[Finding]:
    """The findings, each cause once. `fill` has torch and rebuild, for the sentences."""
    groups: dict[tuple[str, str], list[str]] = {}
    found: dict[tuple[str, str], Finding] = {}
    whole = answers.get("apex", {})
    if whole and whole.get("ok") is not True:
        answers = {"apex": whole}  # without the package, no module of it can be imported
    for name, answer in answers.items():
        for one in _finding(name, answer, files, package, state, fill):
            # The same text from another module has the same cause.
            key = one.code, str(answer.get("text") or answer.get("swallowed") or one.message)
            groups.setdefault(key, []).append(name)
            found.setdefault(key, one)
    return [replace(one, message=one.message + _also(groups[key][1:]))
            for key, one in found.items()]


def _also(others: list[str]) -> str:
    return f" The same holds for {', '.join(others)}." if others else ""


def _finding(name: str, answer: Mapping[str, Any], files: Mapping[str, Found], package: Path,
             state: State, fill: Mapping[str, str]) -> Iterator[Finding]:
    extension = WRAPPERS.get(name) or name.removeprefix(_SHIMS)
    if answer.get("ok") is True:
        if name == "apex" and not same(Path(str(answer.get("file"))).parent, package):
            yield replace(finding("shadowed", name=name, other=answer.get("file")), extensions=())
        yield from _other_library(extension, answer, files)
        kept = answer.get("swallowed")
        if isinstance(kept, str) and extension in state.sound:
            yield finding("error-swallowed", name=extension, wrapper=name, **fill,
                          error=_short(kept) or "it gives no reason")
        return
    text = str(answer.get("text", ""))
    if _absent(name, answer) or _explained(extension, text, answer, state):
        return
    for pattern, form in _TORCH_LACKS:
        if match := pattern.search(text):
            yield finding("torch-lacks", wrapper=name, what=form.format(*match.groups()), **fill)
            return
    yield finding("wrapper-broken", wrapper=name, error=_how(answer, text), **fill)


def _other_library(extension: str, answer: Mapping[str, Any], files: Mapping[str, Found],
                   ) -> Iterator[Finding]:
    """A shim may find another library than the one that was judged."""
    found, loaded = files.get(extension), answer.get("libraries")
    if found is None or found.layout != LIBRARY or not isinstance(loaded, list):
        return
    pattern = re.compile(rf"_{re.escape(extension)}.*\.so")
    for path in loaded:
        if pattern.fullmatch(Path(str(path)).name) and not same(Path(str(path)), found.path):
            yield finding("shadowed", name=extension, other=path)
            return


def _absent(name: str, answer: Mapping[str, Any]) -> bool:
    """Whether this ref of Apex simply has no such module."""
    missing = answer.get("missing")
    return name != "apex" and "ModuleNotFoundError" in answer.get("kinds", ()) and (
        missing == name or (name.startswith(f"{missing}.") and missing != "apex"))


def _explained(extension: str, text: str, answer: Mapping[str, Any], state: State) -> bool:
    """Whether what is said about the extensions already tells why."""
    if extension in state.broken or text in state.texts:
        return True
    if "hang" in answer or "ended" in answer:
        return bool(state.violent)  # whichever module it was that imported one of them
    if answer.get("missing") in state.known - state.sound:
        return True  # absent, which is an error of its own where it was asked for
    return any(re.search(rf"\b_?{re.escape(one)}\b", text) for one in state.broken)


def _how(answer: Mapping[str, Any], text: str) -> str:
    if "hang" in answer or "ended" in answer:
        last = str(answer.get("output") or "").strip().splitlines()
        said = f". It said: {last[-1][:300]}" if last and "ended" in answer else ""
        return f"it {how_it_ended(answer)}{said}"
    kinds = answer.get("kinds") or ["an error"]
    return f"{kinds[0]}: {_short(text)}"


def _short(text: str) -> str:
    return text.strip()[:500]
