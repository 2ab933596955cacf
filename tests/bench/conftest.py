"""What the tests of bench share."""

import sys
from pathlib import Path

# The helpers beside the tests (made-up results, made-up children) are imported by name.
sys.path.insert(0, str(Path(__file__).parent))
