"""Presets: a model's shape, its batch, and what follows from them by arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass

from apexlab.bench.model.shape import Shape

GIB = 2**30
Sizes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Preset:
    """`batch` sequences of `shape.context` tokens a step; `seconds`: what one scenario aims to
    take in one round."""

    name: str
    shape: Shape
    batch: int
    seconds: int

    @property
    def tokens(self) -> int:
        """Tokens of one step."""
        return self.batch * self.shape.context

    def flops(self) -> int:
        """Floating-point operations of one step, forward and backward."""
        return self.tokens * flops_per_token(self.shape)

    def memory(self) -> float:
        """GiB that a step is estimated to need at its peak in FP32: an upper bound for the 16-bit
        scenarios, and no promise.

        Weights, gradients and two moments are 16 bytes a parameter; the logits are there three
        times (themselves, their log-softmax, their gradient); of each token a layer keeps about
        eight vectors of its width and two (gpt) or four (llama) of its inner width.
        """
        shape = self.shape
        kept = 8 * shape.width + (2 if shape.kind == "gpt" else 4) * shape.ffn
        per_token = 4 * (3 * shape.vocabulary + shape.layers * kept)
        return (16 * shape.parameters() + self.tokens * per_token) / GIB


def matrix_parameters(shape: Shape) -> int:
    """The parameters that a token is multiplied with: all matrices, with the tied head counted
    once; no norm, bias, position, or looking up of the embedding, which multiplies nothing."""
    inner = (2 if shape.kind == "gpt" else 3) * shape.width * shape.ffn
    return shape.layers * (4 * shape.width**2 + inner) + shape.vocabulary * shape.width


def flops_per_token(shape: Shape) -> int:
    """6 N + 12 L d T, as in PaLM (Chowdhery et al. 2022, appendix B), with N from
    `matrix_parameters`: 2 forward and 4 backward for each, and attention over the whole sequence,
    without a discount for its causal half. Nothing is recomputed."""
    return 6 * matrix_parameters(shape) + 12 * shape.layers * shape.width * shape.context


def tensors(shape: Shape) -> Sizes:
    """The sizes of all trained tensors, as an optimizer sees them."""
    width, ffn = shape.width, shape.ffn
    if shape.kind == "gpt":
        norm: Sizes = ((width,), (width,))
        layer: Sizes = (*norm, (3 * width, width), (3 * width,), (width, width), (width,),
                        *norm, (ffn, width), (ffn,), (width, ffn), (width,))
        around: Sizes = ((shape.vocabulary, width), (shape.context, width))
    else:
        norm = ((width,),)
        layer = (*norm, (3 * width, width), (width, width),
                 *norm, (ffn, width), (ffn, width), (width, ffn))
        around = ((shape.vocabulary, width),)
    return (*around, *(layer * shape.layers), *norm)


def numbers_of(sizes: Sizes) -> int:
    """How many numbers tensors of these sizes hold."""
    return sum(math.prod(size) for size in sizes)
