"""A registry and a repository of its own for each test."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path

import pytest

_number = itertools.count(1)


HERE = Path(__file__).parent


def _importable(name: str, folder: Path = HERE):
    """A module of a folder, for `import`: pytest's importlib mode puts it on no path."""
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


_importable("loopback_registry", HERE.parents[1] / "build" / "scripts")
made_images, _, _ = _importable("made_images"), _importable("proxy"), _importable("tls")


@pytest.fixture(scope="session")
def place(registry_tools, tmp_path_factory):
    """A registry that runs."""
    home = tmp_path_factory.mktemp("registry")
    made, process = made_images.make_place(home)
    yield made
    process.terminate()
    process.wait(10)


@pytest.fixture
def repository(place):
    """A repository that no other test uses."""
    return made_images.Repository(place, f"test/apexlab{next(_number)}")
