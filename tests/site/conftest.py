"""Records as publishing leaves them, sites made from them, and a browser to look at them with."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
AXE = "4.14.1"
AXE_SHA512 = ("FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09"
              "a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==")



# The modules of this folder, for `import`: pytest's importlib mode puts it on no path.
sys.path.append(str(Path(__file__).parent))


@pytest.fixture(scope="session")
def axe() -> str:
    """axe-core's own text, from npm, once, and held against its hash."""
    home = ROOT / ".cache" / "axe-core"
    file = home / f"axe-{AXE}.js"
    if not file.exists():
        home.mkdir(parents=True, exist_ok=True)
        npm = Path(sys.executable).with_name("npm")
        command = [npm if npm.exists() else shutil.which("npm") or "npm", "pack", "--silent",
                   f"axe-core@{AXE}"]
        subprocess.run(command, cwd=home, check=True, capture_output=True, timeout=120)
        packed = home / f"axe-core-{AXE}.tgz"
        digest = hashlib.sha512(packed.read_bytes()).digest()
        assert base64.b64encode(digest).decode() == AXE_SHA512
        with tarfile.open(packed) as tar:
            text = tar.extractfile("package/axe.min.js").read()
        file.write_bytes(text)
        packed.unlink()
    return file.read_text(encoding="utf-8")
