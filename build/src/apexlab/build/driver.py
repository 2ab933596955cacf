"""The compile driver: from a source tree to a wheel that was checked against what was asked for.

`prepare` (its own module) read everything. `build` compiles in a folder of its own, and puts the
wheel and its record into the output folder only when the gate let them through.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from apexlab.build import failures, gate, source, toolchain, wheelfile
from apexlab.build.errors import CompileError, PreflightError
from apexlab.build.make_record import built_of, local_version, make_record
from apexlab.build.prepare import Prepared
from apexlab.build.runner import run
from apexlab.verify.record import Record


@dataclass(frozen=True)
class Outcome:
    """A checked wheel, and the record beside it."""

    wheel: Path
    record: Record


def build(prepared: Prepared, on_line: Callable[[str], None],
          seconds: Mapping[str, float]) -> Outcome:  # fmt: skip
    """Compile, gate, and write wheel and record into the output folder. `on_line` gets each line
    of the build's output; once it had them all, `seconds` says how long each extension took.

    Raises CompileError, whose last line names the log; no wheel is written then.
    """
    out = prepared.ask.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    log = out / "build.log"
    log.touch()
    with tempfile.TemporaryDirectory(prefix="apexlab-compile-", ignore_cleanup_errors=True) as name:
        scratch = Path(name)
        try:
            wheel, record = _build_in(scratch, prepared, log, on_line, seconds)
            gate.check(wheel, record, prepared.request)
        except CompileError as error:
            raise CompileError(f"{error}\nThe full log: {log}") from error
        final = out / wheel.name
        _place(wheel, final)
        record = dataclasses.replace(
            record, wheel={"name": final.name, "sha256": wheelfile.sha256(final)})
        (scratch / "record.json").write_text(record.to_json())
        _place(scratch / "record.json", out / "record.json")
    return Outcome(final, record)


def _build_in(
    scratch: Path, prepared: Prepared, log: Path, on_line: Callable[[str], None],
    seconds: Mapping[str, float],
) -> tuple[Path, Record]:  # fmt: skip
    """The packed wheel in `scratch`, with its record inside; and that record."""
    host, request = prepared.host, prepared.request
    if host.toolkit is None or host.compiler is None:
        raise PreflightError("There is no toolkit or no compiler to build with.")
    tree = scratch / "source"
    source.copy(prepared.source, tree)
    env = toolchain.environment(
        os.environ, request, host.toolkit, host.compiler, host.jobs, prepared.std, scratch)
    config = scratch / "extra.cfg"
    # setuptools' own way to add to a version, so that nobody's setup.py is rewritten.
    tag = local_version(prepared.source, host.torch.version)
    config.write_text(f"[egg_info]\ntag_build = +{tag}\n")
    env["DIST_EXTRA_CONFIG"] = str(config)
    # Stored, not deflated: this wheel is unpacked at once, and packed anew when it was stripped.
    command = [sys.executable, "setup.py", *request.arguments, "--compression", "stored",
               "--dist-dir", str(scratch / "dist")]  # fmt: skip
    ended = run(command, tree, env, log, on_line)
    wheels = sorted((scratch / "dist").glob("*.whl"))
    if ended.code or not wheels:
        _, cause = failures.classify(log.read_text(errors="replace"), ended.code)
        raise CompileError(f"The build failed. {cause}")
    root = wheelfile.unpack(wheels[0], scratch / "wheel")
    modules = wheelfile.modules(root)
    wheelfile.strip(modules)
    record = make_record(
        prepared.source, request, host, prepared.limit, ended,
        built_of(root, modules, seconds), std=prepared.std, url=prepared.ask.url,
        cached="CCACHE_BASEDIR" in env, images=prepared.ask.images)  # fmt: skip
    record = dataclasses.replace(record, wheel={"name": wheels[0].name, "sha256": None})
    (wheelfile.dist_info(root) / wheelfile.RECORD_NAME).write_text(record.to_json())
    return wheelfile.pack(root, scratch / "packed"), record


def _place(file: Path, target: Path) -> None:
    """Copy whole or not at all: the scratch folder may be on another disk."""
    beside = target.with_name(f".{target.name}.part")
    try:
        shutil.copyfile(file, beside)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
