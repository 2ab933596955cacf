"""Python code in this layout: importing it proves nothing."""

import torch


def flatten(tensors):
    return torch.cat([x.reshape(-1) for x in tensors])


def unflatten(flat, like):
    pieces = flat.split([x.numel() for x in like])
    return [piece.view(x.shape) for piece, x in zip(pieces, like)]
