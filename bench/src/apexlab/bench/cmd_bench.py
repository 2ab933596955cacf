"""`apexlab bench`: says what is true of it today."""

from __future__ import annotations

import click

from apexlab.verify.errors import CannotError


@click.command(context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def bench() -> None:
    """Measure Transformer training with and without Apex: not in this version."""
    raise CannotError(
        "This version of apexlab measures nothing yet: its images are compiled and verified, and "
        "the benchmark comes with a later version. `apexlab verify` says what works here.")
