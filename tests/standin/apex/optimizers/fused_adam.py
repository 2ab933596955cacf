"""Adam through amp_C: one launch for many parameters."""

import torch

from .._compiled import module
from ..multi_tensor_apply import multi_tensor_applier

LISTED = (torch.float16, torch.bfloat16, torch.float32)


class FusedAdam(torch.optim.Optimizer):
    """Adam, or AdamW with `adam_w_mode`. Parameters without a gradient are skipped.

    With `capturable` step and learning rate live on the device, so that a CUDA graph can hold the
    step. `master_weights` keeps FP32 copies of FP16 parameters, and of no others.
    """

    def __init__(self, params, lr=1e-3, bias_correction=True, betas=(0.9, 0.999), eps=1e-8,
                 adam_w_mode=True, weight_decay=0.0, amsgrad=False, set_grad_none=True,
                 capturable=False, master_weights=False):
        if amsgrad:
            raise RuntimeError("FusedAdam does not support the AMSGrad variant.")
        if master_weights and not capturable:
            raise RuntimeError("Master weights need the capturable version.")
        if not multi_tensor_applier.available:
            raise RuntimeError("apex.optimizers.FusedAdam requires cuda extensions")
        amp_C = module("amp_C")
        if capturable:
            lr = torch.tensor(lr, dtype=torch.float32)
        super().__init__(params, {
            "lr": lr, "bias_correction": bias_correction, "betas": betas, "eps": eps,
            "weight_decay": weight_decay,
        })
        self.adam_w_mode = 1 if adam_w_mode else 0
        self.set_grad_none = set_grad_none
        self.capturable = capturable
        self.master_weights = master_weights
        self.multi_tensor_adam = amp_C.multi_tensor_adam
        self.multi_tensor_adam_capturable = amp_C.multi_tensor_adam_capturable
        self.multi_tensor_adam_capturable_master = amp_C.multi_tensor_adam_capturable_master
        self._flag = torch.zeros(1, dtype=torch.int32, device="cuda")
        if capturable:
            for group in self.param_groups:
                group["lr"] = group["lr"].to(group["params"][0].device)

    def zero_grad(self, set_to_none=None):
        super().zero_grad(self.set_grad_none if set_to_none is None else set_to_none)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._count(group)
            for dtype in LISTED:
                self._step_dtype(group, dtype)
            if unknown := [p for p in group["params"] if p.grad is not None
                           and p.dtype not in LISTED]:
                raise RuntimeError(f"FusedAdam does not support {unknown[0].dtype}")
        return loss

    def _count(self, group):
        device = group["params"][0].device
        if self.capturable:
            if "step" not in group:
                group["step"] = torch.zeros(1, dtype=torch.int32, device=device)
            group["step"] += (self._flag.to(device) == 0).to(torch.int32)
        else:
            group["step"] = group.get("step", 0) + 1

    def _state_of(self, p):
        state = self.state[p]
        if not state:
            state["exp_avg"] = torch.zeros_like(p, dtype=torch.float32)
            state["exp_avg_sq"] = torch.zeros_like(p, dtype=torch.float32)
            if self.master_weights and p.dtype == torch.float16:
                state["master_param"] = p.detach().clone().float()
        return state

    def _step_dtype(self, group, dtype):
        params = [p for p in group["params"] if p.grad is not None and p.dtype == dtype]
        for device in dict.fromkeys(p.device for p in params):
            self._launch(group, [p for p in params if p.device == device], device)

    def _launch(self, group, params, device):
        states = [self._state_of(p) for p in params]
        lists = [[p.grad for p in params], params, [s["exp_avg"] for s in states],
                 [s["exp_avg_sq"] for s in states]]
        beta1, beta2 = group["betas"]
        common = (self.adam_w_mode, int(group["bias_correction"]), group["weight_decay"])
        flag = self._flag.to(device)
        if not self.capturable:
            multi_tensor_applier(self.multi_tensor_adam, flag, lists, group["lr"], beta1, beta2,
                                 group["eps"], group["step"], *common)
            return
        function = self.multi_tensor_adam_capturable
        if self.master_weights and params[0].dtype == torch.float16:
            function = self.multi_tensor_adam_capturable_master
            lists.append([s["master_param"] for s in states])
        scale = torch.ones(1, dtype=torch.float32, device=device)
        multi_tensor_applier(function, flag, lists, group["lr"].to(device), beta1, beta2,
                             group["eps"], group["step"].to(device), *common, scale)
