"""The one place that knows where compiled functions come from."""

import importlib
import importlib.util


def module(name):
    """The compiled module `name`, or the shim that stands for it in a wheel with libraries."""
    if importlib.util.find_spec("._extensions", __package__):
        name = f"{__package__}._extensions.{name}"
    return importlib.import_module(name)
