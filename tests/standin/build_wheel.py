"""Builds a wheel of the stand-in from a copy of its tree, and keeps it for the next caller.

    wheel = build_wheel(python, environ, cache, sabotage="truncated", only=("amp_C",))

The result is kept under `cache` in a folder named after a hash of the tree, the Python and the
settings, so a rerun of the tests costs nothing.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

TREE = Path(__file__).resolve().parent
FLAGS = {"APEX_CPP_EXT": "1", "APEX_CUDA_EXT": "1", "APEX_DEPRECATED_FUSED_ADAM": "1"}
# Neither belongs to the build: a change in them must not cost one.
NOT_BUILT_FROM = ("README.md", "build_wheel.py", "check_on_gpu.py")
# What a person's own shell may have set for a build; it must not change the tests' wheels.
FOREIGN = ("APEX_", "STANDIN_", "TORCH_CUDA_ARCH_LIST", "NVCC_", "MAX_JOBS")
VERSIONS = "import sys, torch; print(sys.version_info[:2], torch.__version__)"


def source_files():
    """The files that a build depends on."""
    return sorted(path for path in TREE.rglob("*")
                  if path.is_file() and "__pycache__" not in path.parts
                  and path.name not in NOT_BUILT_FROM)


def key_of(python, environ, settings):
    """A short hash of everything that the wheel depends on."""
    digest = hashlib.sha256()
    for path in source_files():
        digest.update(f"{path.relative_to(TREE)}\0".encode() + path.read_bytes() + b"\0")
    versions = subprocess.run([python, "-c", VERSIONS], env=environ, capture_output=True,
                              check=True).stdout
    digest.update(versions + repr(sorted(settings.items())).encode())
    digest.update(environ.get("CUDA_HOME", "").encode())
    return digest.hexdigest()[:16]


def without_foreign(environ):
    """The variables without any that would change a build."""
    return {key: value for key, value in environ.items() if not key.startswith(FOREIGN)}


def copy_tree(folder):
    """A copy of the tree: a build never writes into the checkout."""
    return Path(shutil.copytree(TREE, folder, ignore=shutil.ignore_patterns("__pycache__")))


def run_setup(python, tree, environ, *arguments):
    """Runs the setup.py of a copied tree; its CompletedProcess, or CalledProcessError."""
    library = tree.parent / "lib"
    library.mkdir(exist_ok=True)
    # NVIDIA's wheels have the runtime under its versioned name alone, which no linker looks for.
    for runtime in Path(environ["CUDA_HOME"]).glob("lib/libcudart.so.*"):
        if not (library / "libcudart.so").exists():
            (library / "libcudart.so").symlink_to(runtime)
    environ = {**environ, "LIBRARY_PATH": f"{library}:{environ.get('LIBRARY_PATH', '')}",
               # ninja lies beside the Python of an environment that nobody activated.
               "PATH": f"{Path(python).parent}:{environ.get('PATH', '')}"}
    return subprocess.run([python, "setup.py", *arguments], cwd=tree, env=environ, check=True,
                          capture_output=True, text=True)


def build_wheel(python, environ, cache, archs="8.0;9.0+PTX", sabotage="", only=(), flags=FLAGS,
                layout=""):
    """The wheel's path. `environ` holds CUDA_HOME; what in it would change the build is left out.
    Raises CalledProcessError with the output."""
    settings = {**flags, "TORCH_CUDA_ARCH_LIST": archs, "STANDIN_SABOTAGE": sabotage,
                "STANDIN_ONLY": ",".join(only), "STANDIN_LAYOUT": layout}
    environ = without_foreign(environ)
    kept = Path(cache) / "standin" / key_of(python, environ, settings)
    kept.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{kept}.lock", "w") as lock:
        # Two test runs side by side build it once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            _build(python, {**environ, **settings}, kept)
    return next(kept.glob("*.whl"))


def _build(python, environ, kept):
    environ = {key: value for key, value in environ.items() if value}
    # One job in each of as many extensions as there are cores: an extension has two files, and
    # the shorter one would leave a core idle.
    environ = {"MAX_JOBS": "1", "APEX_PARALLEL_BUILD": str(os.cpu_count() or 1), **environ}
    with tempfile.TemporaryDirectory(prefix="standin-") as work:
        tree = copy_tree(Path(work) / "tree")
        run_setup(python, tree, environ, "-q", "bdist_wheel")
        unfinished = Path(f"{kept}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(tree / "dist", unfinished)
        unfinished.rename(kept)
