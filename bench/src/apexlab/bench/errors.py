"""The errors of bench. Each message is one paragraph; each class carries the exit code."""

from __future__ import annotations

from apexlab.verify.errors import ProblemError, UsageError


class PresetError(UsageError):
    """A preset that there is not, or a preset file that does not describe a model."""


class SamplesError(ProblemError):
    """Times that cannot be compared: none, not finite, or not above zero."""


class MeasureError(ProblemError):
    """A run whose times would not be those of the training that they are named after."""
