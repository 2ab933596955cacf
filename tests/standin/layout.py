"""In which layout the stand-in is built: modules to import, or libraries for torch.ops.

The layout comes from the environment variable STANDIN_LAYOUT or, without it, from the file
`layout` beside setup.py. Without both it is `top-level`, whose modules are imported by name. In
`_extensions` a library registers its functions under torch.ops.apex and has nothing to import; the
shims in apex/_extensions, which no other wheel holds, give them their old names back.
"""

import os
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parent
LAYOUTS = ("top-level", "_extensions")
SHIMS = "apex._extensions"
# What the shims do in Python.
WITHOUT_LIBRARY = ("apex_C",)


def uses_libraries():
    """Whether the layout is `_extensions`. An unknown one ends the build, as a sabotage does."""
    file = TREE / "layout"
    text = os.environ.get("STANDIN_LAYOUT") or (file.read_text() if file.exists() else "")
    name = text.strip() or LAYOUTS[0]
    if name not in LAYOUTS:
        sys.exit(f"unknown layout {name!r}; known are: {', '.join(LAYOUTS)}")
    return name == "_extensions"


def prefix_of(name):
    """What a library's functions are called under torch.ops.apex, before their own names."""
    return name.removesuffix("_C")


def as_libraries(extensions):
    """The extensions, renamed, with a binding that registers functions and exports no module."""
    libraries = [e for e in extensions if e.name not in WITHOUT_LIBRARY]
    for extension in libraries:
        # For bindings alone: kernels are the same in both layouts.
        extension.extra_compile_args["cxx"].append(f"-DSTANDIN_OPS={prefix_of(extension.name)}")
        extension.name = f"_{extension.name}"
    return libraries
