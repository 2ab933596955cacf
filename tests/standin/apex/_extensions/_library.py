"""Finds and loads the library behind a shim."""

from pathlib import Path

HERE = Path(__file__).resolve().parent


def find(name, folder=HERE):
    """The file `_<name>*.so` in `folder`, its parent or its grandparent; the nearest wins, and in
    one folder a name without a Python's tag. Raises ImportError."""
    places = (folder, folder.parent, folder.parent.parent)
    for place in places:
        if files := sorted(place.glob(f"_{name}*.so")):
            return min(files, key=lambda file: ".cpython-" in file.name)
    raise ImportError(f"no library _{name}*.so in {', '.join(map(str, places))}", name=name)


def functions(name, prefix=None):
    """Loads the library. The result answers for a shim's attributes: its __getattr__."""
    import torch

    file = find(name)
    try:
        torch.ops.load_library(str(file))
    except OSError as error:
        # torch hides the loader's words in the cause.
        raise ImportError(f"{error}: {error.__cause__}", name=name, path=str(file)) from error
    return lambda function: getattr(torch.ops.apex, f"{prefix or name}_{function}")
