"""The shape of a Transformer, without torch: what a preset fills and the model is made from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from apexlab.verify.errors import UsageError

KINDS = ("gpt", "llama")


@dataclass(frozen=True)
class Shape:
    """`kind` gpt: LayerNorm, GELU, learned positions, biases; llama: RMSNorm, SwiGLU, RoPE, none.

    `context` is the longest sequence in tokens; `ffn` the inner width of the feed-forward part.
    In both kinds the output head is the token embedding (tied).
    """

    kind: Literal["gpt", "llama"]
    vocabulary: int
    context: int
    layers: int
    width: int
    heads: int
    ffn: int

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(f"There is no model of kind {self.kind!r}; there are gpt and llama.")
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if type(value) is not int or value < 1:
                raise UsageError(f"The {field.name} of a model is a whole number above 0, "
                                 f"not {value!r}.")
        if self.width % self.heads:
            raise UsageError(f"{self.heads} heads do not divide a width of {self.width}.")
        if self.kind == "llama" and self.head % 2:
            raise UsageError(f"Rotary positions turn pairs, so the width of a head has to be even; "
                             f"{self.width} over {self.heads} heads gives {self.head}.")

    @property
    def head(self) -> int:
        """The width of one attention head."""
        return self.width // self.heads

    def parameters(self) -> int:
        """All trained numbers, those of the tied embedding counted once."""
        per_layer = {"gpt": 4 * self.width**2 + 2 * self.width * self.ffn
                     + self.ffn + 9 * self.width,
                     "llama": 4 * self.width**2 + 3 * self.width * self.ffn + 2 * self.width}
        around = {"gpt": self.context * self.width + 2 * self.width, "llama": self.width}
        return (self.vocabulary * self.width + around[self.kind]
                + self.layers * per_layer[self.kind])
