"""Initial weights that depend on the seed and on a parameter's name, and on nothing else."""

from __future__ import annotations

import hashlib
import math

import torch

SPREAD = 0.02
# The two that write into the residual; they start smaller, by the number of their additions.
INTO_RESIDUAL = ("attention.out.weight", "ffn.down.weight")


def initialise(model: torch.nn.Module, seed: int) -> None:
    """Fills a Transformer's parameters. Numbers are drawn on the CPU, in FP32, tensor by tensor,
    so neither the device, the norms nor the order of creation changes them."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(initial(name, parameter.shape, seed, model.shape.layers))


def initial(name: str, size: torch.Size, seed: int, layers: int) -> torch.Tensor:
    """One parameter's first value: norms pass through, biases are zero, matrices are normal."""
    if len(size) == 1:
        return torch.full(size, 0.0 if name.endswith("bias") else 1.0, device="cpu")
    key = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    generator = torch.Generator("cpu").manual_seed(int.from_bytes(key[:7], "little"))
    spread = SPREAD / math.sqrt(2 * layers) if name.endswith(INTO_RESIDUAL) else SPREAD
    return torch.empty(size, device="cpu").normal_(0.0, spread, generator=generator)


def digest(model: torch.nn.Module) -> str:
    """SHA-256 over names and bytes of all parameters: equal weights, equal digest."""
    total = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        total.update(f"{name} {parameter.dtype} {tuple(parameter.shape)}\n".encode())
        total.update(parameter.detach().contiguous().view(torch.uint8).cpu().numpy().data)
    return total.hexdigest()
