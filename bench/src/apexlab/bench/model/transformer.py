"""A Transformer without surprises: pre-norm, GPT or LLaMA, its norms given from outside.

No dropout. The output head is the token embedding. B is the batch, T the tokens, W the width.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from apexlab.bench.model.shape import Shape

ROPE_BASE = 10_000.0
Norm = Callable[[int], nn.Module]


class Transformer(nn.Module):  # type: ignore[misc]
    """`forward(tokens, targets)`, both (B, T), gives the mean cross-entropy, a FP32 scalar."""

    def __init__(self, shape: Shape, norm: Norm) -> None:
        super().__init__()
        self.shape = shape
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        if shape.kind == "gpt":
            self.positions = nn.Embedding(shape.context, shape.width)
        else:
            for name, table in zip(("cos", "sin"), rotations(shape.context, shape.head),
                                   strict=True):
                self.register_buffer(name, table, persistent=False)
        self.blocks = nn.ModuleList(Block(shape, norm) for _ in range(shape.layers))
        self.norm = norm(shape.width)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        logits = self.logits(tokens).float()
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def logits(self, tokens: Tensor) -> Tensor:
        """(B, T, vocabulary)."""
        length = tokens.shape[1]
        x, turn = self.tokens(tokens), None
        if self.shape.kind == "gpt":
            x = x + self.positions.weight[:length]
        else:
            turn = self.cos[:length], self.sin[:length]
        for block in self.blocks:
            x = block(x, turn)
        return F.linear(self.norm(x), self.tokens.weight)


class Block(nn.Module):  # type: ignore[misc]
    """Attention and the feed-forward part, each behind a norm and beside a residual; (B, T, W)."""

    def __init__(self, shape: Shape, norm: Norm) -> None:
        super().__init__()
        self.attention_norm = norm(shape.width)
        self.attention = Attention(shape)
        self.ffn_norm = norm(shape.width)
        self.ffn = Gelu(shape) if shape.kind == "gpt" else SwiGlu(shape)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor] | None) -> Tensor:
        x = x + self.attention(self.attention_norm(x), turn)
        return x + self.ffn(self.ffn_norm(x))


class Attention(nn.Module):  # type: ignore[misc]
    """Causal attention over all heads; torch chooses the kernel (see probes.py)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, bias = shape.heads, shape.kind == "gpt"
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=bias)
        self.out = nn.Linear(shape.width, shape.width, bias=bias)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor] | None) -> Tensor:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for part in self.qkv(x).chunk(3, dim=-1))
        if turn is not None:
            q, k = rotated(q, *turn), rotated(k, *turn)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class Gelu(nn.Module):  # type: ignore[misc]
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.up = nn.Linear(shape.width, shape.ffn)
        self.down = nn.Linear(shape.ffn, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))


class SwiGlu(nn.Module):  # type: ignore[misc]
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate = nn.Linear(shape.width, shape.ffn, bias=False)
        self.up = nn.Linear(shape.width, shape.ffn, bias=False)
        self.down = nn.Linear(shape.ffn, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


def rotations(context: int, head: int) -> tuple[Tensor, Tensor]:
    """Cosine and sine of each position's angles, (context, head / 2)."""
    speeds = ROPE_BASE ** (torch.arange(0, head, 2, dtype=torch.float64) / -head)
    angles = torch.outer(torch.arange(context, dtype=torch.float64), speeds)
    return angles.cos().float(), angles.sin().float()


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """(B, heads, T, head) with the pairs (i, i + head / 2) turned, in x's own dtype."""
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
