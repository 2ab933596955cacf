"""Gradient clipping through amp_C, or PyTorch without a word."""

import torch

from ..._compiled import module
from ...multi_tensor_apply import multi_tensor_applier

LISTED = (torch.float32, torch.float16)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False):
    """As torch's function of this name. Gradients in BF16 and those on another device than the
    first parameter's go one by one through PyTorch."""
    parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
    parameters = [p for p in parameters if p.grad is not None]
    on_gpu = [p for p in parameters if p.is_cuda]
    if not multi_tensor_applier.available or float(norm_type) != 2.0 or not on_gpu:
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type=norm_type,
                                              error_if_nonfinite=error_if_nonfinite)
    device = on_gpu[0].device
    grads = [p.grad.detach() for p in parameters]
    lists = [[g for g in grads if g.device == device and g.dtype == dtype] for dtype in LISTED]
    lists = [group for group in lists if group]
    others = [g for g in grads if g.device != device or g.dtype not in LISTED]
    flag = torch.zeros(1, dtype=torch.int32, device=device)
    norms = [multi_tensor_applier(module("amp_C").multi_tensor_l2norm, flag, [group], False)[0]
             for group in lists]
    norms += [g.norm().reshape(1).to(device, torch.float32) for g in others]
    total = torch.cat(norms).norm()
    if error_if_nonfinite and not torch.isfinite(total):
        raise RuntimeError("the norm of the gradients is not finite, so they cannot be clipped")
    factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for group in lists:
        multi_tensor_applier(module("amp_C").multi_tensor_scale, flag, [group, group],
                             factor.item())
    for g in others:
        g.mul_(factor.to(g.device, g.dtype))
    return total
