"""`make try` says what it lacks before gigabytes come."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_source_that_is_not_apex_is_refused_before_anything_is_made(tmp_path):
    script = ROOT / "build" / "scripts" / "try_it.py"
    done = subprocess.run(
        [sys.executable, script, "--folder", tmp_path / "try", "--source", tmp_path / "none"],
        capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "is not an Apex source tree" in done.stderr
    assert not (tmp_path / "try").exists()
