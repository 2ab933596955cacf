"""The older Adam, through fused_adam_cuda: one launch for each FP32 parameter."""

import torch

from ..._compiled import module


class FusedAdam(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, bias_correction=True, betas=(0.9, 0.999), eps=1e-8,
                 eps_inside_sqrt=False, weight_decay=0.0, amsgrad=False):
        self.extension = module("fused_adam_cuda")
        if amsgrad:
            raise RuntimeError("FusedAdam does not support the AMSGrad variant.")
        self.eps_mode = 0 if eps_inside_sqrt else 1
        super().__init__(params, {"lr": lr, "bias_correction": bias_correction, "betas": betas,
                                  "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None, scale=1.0):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._step_one(group, p, scale)
        return loss

    def _step_one(self, group, p, scale):
        state = self.state[p]
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
        state["step"] += 1
        no_copy = torch.empty(0, dtype=p.grad.dtype, device=p.device)
        self.extension.adam(p, no_copy, state["exp_avg"], state["exp_avg_sq"], p.grad, group["lr"],
                            *group["betas"], group["eps"], scale, state["step"], self.eps_mode,
                            int(group["bias_correction"]), group["weight_decay"])
