"""Writes what the entrypoint and pip need to know about this image, from what is installed.

/opt/apexlab/commands: apexlab's subcommands, one a line.
/opt/apexlab/constraints.txt: what keeps a later `pip install` from replacing torch or Apex.
"""

from importlib import metadata
from pathlib import Path

HOME = Path("/opt/apexlab")
HEADER = """\
# This image's Apex was compiled against this very torch, and breaks with any other, silently.
# pip and uv are kept to these versions by PIP_CONSTRAINT and UV_CONSTRAINT; `===` is used because
# `==2.6.0` would also let in 2.6.0+cu126, which is another binary. To lift it, for one command:
#   PIP_CONSTRAINT= pip install ...        UV_CONSTRAINT= uv pip install ...
# Afterwards `apexlab verify` says whether Apex still works; build Apex again if it does not.
"""


def version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


HOME.mkdir(parents=True, exist_ok=True)
pins = [f"{name}==={found}\n" for name in ("torch", "apex") if (found := version(name))]
(HOME / "constraints.txt").write_text(HEADER + "".join(pins))
commands = sorted({point.name for point in metadata.entry_points(group="apexlab.commands")})
(HOME / "commands").write_text("".join(f"{name}\n" for name in commands))
