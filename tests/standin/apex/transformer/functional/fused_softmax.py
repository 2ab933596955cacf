"""Scale, mask and softmax through one of three modules where the shape allows it, or PyTorch
without a word."""

import torch

from ..._compiled import module
from ..enums import AttnMaskType


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, name, scale, x, *mask):
        ctx.name, ctx.scale, ctx.masks = name, scale, len(mask)
        y = module(name).forward(x, *mask, scale)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        dx = module(ctx.name).backward(dy, *ctx.saved_tensors, ctx.scale)
        return (None, None, dx, *([None] * ctx.masks))


class FusedScaleMaskSoftmax(torch.nn.Module):
    """Softmax over the last dimension of [batch, heads, queries, keys]."""

    def __init__(self, input_in_fp16, input_in_bf16, attn_mask_type, scaled_masked_softmax_fusion,
                 mask_func, softmax_in_fp32, scale):
        super().__init__()
        self.in_16_bits = input_in_fp16 or input_in_bf16
        self.attn_mask_type = attn_mask_type
        self.fusion = scaled_masked_softmax_fusion
        self.mask_func = mask_func
        self.softmax_in_fp32 = softmax_in_fp32
        self.scale = scale

    def forward(self, input, mask):
        if self.is_kernel_available(mask, *input.size()):
            return self.fused(input, mask, 1.0 if self.scale is None else self.scale)
        return self.in_pytorch(input, mask)

    def is_kernel_available(self, mask, b, heads, queries, keys):
        """Whether the kernels take this shape; where it looks so, their module has to be there."""
        causal = self.attn_mask_type == AttnMaskType.causal
        if not (self.fusion and self.in_16_bits and 16 < keys <= 16384 and queries % 4 == 0
                and keys % 4 == 0 and b * heads % 4 == 0):
            return False
        per_block = module("scaled_masked_softmax_cuda").get_batch_per_block(
            queries, keys, b, heads)
        return (b * heads if causal else queries) % per_block == 0

    def fused(self, x, mask, scale):
        if self.attn_mask_type == AttnMaskType.causal:
            rows = x.view(-1, *x.shape[-2:])
            name = "scaled_upper_triang_masked_softmax_cuda"
            return Softmax.apply(name, scale, rows).view(x.shape)
        if mask is None:
            return Softmax.apply("scaled_softmax_cuda", scale, x)
        return Softmax.apply("scaled_masked_softmax_cuda", scale, x, mask.to(torch.uint8))

    def in_pytorch(self, x, mask):
        dtype = x.dtype
        x = x.float() if self.in_16_bits and self.softmax_in_fp32 else x
        x = x if self.scale is None else x * self.scale
        x = x if mask is None else self.mask_func(x, mask)
        return torch.softmax(x, dim=-1).to(dtype)
