"""The fewest bytes that an operation has to move, by arithmetic: what its time is held against.

Every number that is not kept on the chip is read or written once for each time that the mathematics
needs it; no implementation can do with less from memory, and most do with more.
"""

from __future__ import annotations

from dataclasses import dataclass

SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}
STATISTIC = 4  # mean and inverse deviation of a row are FP32


def adam(numbers: int, weight: str = "float32", moment: str = "float32") -> int:
    """One step: the gradient is read, parameter and two moments are read and written."""
    return numbers * (3 * SIZES[weight] + 4 * SIZES[moment])


def unscale(numbers: int, dtype: str = "float32") -> int:
    """Gradients are read and written once."""
    return numbers * 2 * SIZES[dtype]


def clip(numbers: int, dtype: str = "float32") -> int:
    """The length has to be known before the first gradient is shortened: read, read, written."""
    return numbers * 3 * SIZES[dtype]


@dataclass(frozen=True)
class Norm:
    """A norm over `rows` rows of `width` numbers. `x`, `y`, `weights`: the dtypes of input, result
    and parameters; under autocast the input is an FP32 residual and the result has 16 bits."""

    rows: int
    width: int
    x: str
    y: str
    weights: str
    rms: bool

    @property
    def _parameters(self) -> int:
        return (1 if self.rms else 2) * self.width * SIZES[self.weights]

    @property
    def _statistics(self) -> int:
        return (1 if self.rms else 2) * self.rows * STATISTIC

    def forward(self) -> int:
        """x and the parameters are read; y and the statistics, which backward needs, written."""
        return (self.rows * self.width * (SIZES[self.x] + SIZES[self.y])
                + self._parameters + self._statistics)

    def backward(self) -> int:
        """The gradient of y and the smaller of x and y (either gives the normalised row) are read,
        with the weight and the statistics; the gradients of x and of the parameters written."""
        x, y = SIZES[self.x], SIZES[self.y]
        weight = self.width * SIZES[self.weights]
        return (self.rows * self.width * (y + min(x, y) + x)
                + weight + self._statistics + self._parameters)
