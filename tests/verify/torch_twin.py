"""Makes every call of the table on the CPU, with torch's own functions in Apex's place.

    python torch_twin.py FOLDER_OF_PROVE right|nothing|first-kept...

Prints one JSON document: for each mode, call and dtype its phases. A phase's errors also hold what
the same result would give if it were zero, or had a NaN or a spoiled value as its first element.
With `nothing` the functions do nothing: results are zero, and what is written in place stays as it
was; with `first-kept` they leave the first element of each tensor out.
"""

import contextlib
import importlib
import importlib.util
import json
import sys
import types
from pathlib import Path

import torch
from torch.nn import functional as F

MODE = "right"
torch.set_num_threads(1)  # the tensors are small, and the machine may be busy


def spoiled(result):
    """A function's result in the chosen mode."""
    if MODE == "right":
        return result
    if isinstance(result, (list, tuple)):
        return type(result)(spoiled(one) for one in result)
    if MODE == "nothing":
        return result * 0
    keep = torch.ones_like(result)
    keep.view(-1)[0] = 0
    return result * keep


def gives(function):
    return lambda *arguments: spoiled(function(*arguments))


@torch.no_grad()
def put(target, value):
    """Writes a result in place, in the chosen mode."""
    if MODE == "nothing":
        return
    first = target.reshape(-1)[0].item()
    target.copy_(value)
    if MODE == "first-kept":
        target.view(-1)[0] = first


def adamw(p, g, m, v, lr, betas, eps, step, decay):
    """One step of torch's own AdamW in FP32 from the moments `m` and `v`; the new p, m, v."""
    parameter = p.detach().float().clone().requires_grad_()
    optimizer = torch.optim.AdamW([parameter], lr=lr, betas=betas, eps=eps, weight_decay=decay)
    optimizer.state[parameter] = {"step": torch.tensor(float(step - 1)), "exp_avg": m.clone(),
                                  "exp_avg_sq": v.clone()}
    parameter.grad = g.float()
    optimizer.step()
    state = optimizer.state[parameter]
    return parameter.detach(), state["exp_avg"], state["exp_avg_sq"]


class FusedAdam(torch.optim.Optimizer):
    def __init__(self, params, lr, betas, eps, weight_decay, capturable=False,
                 master_weights=False):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "decay": weight_decay})
        self.steps, self.keeps_masters = 0, master_weights

    def step(self):
        self.steps += 1
        for group in self.param_groups:
            for p in group["params"]:
                zeros = torch.zeros_like(p, dtype=torch.float32)
                state = self.state[p] or {"m": zeros, "v": zeros, "p": p.detach()}
                new, m, v = adamw(state["p"] if self.keeps_masters else p, p.grad, state["m"],
                                  state["v"], group["lr"], group["betas"], group["eps"],
                                  self.steps, group["decay"])
                self.state[p] = {"m": m, "v": v, "p": new}
                put(p, new)


class LayerNorm(torch.nn.LayerNorm):
    """torch's layer norm, and what Apex's classes do besides."""

    mixed = False

    def forward(self, x):
        leaves = [x, self.weight, getattr(self, "bias", None)]
        if torch.is_autocast_enabled("cpu"):
            leaves = [leaf if leaf is None else leaf.to(torch.get_autocast_dtype("cpu"))
                      for leaf in leaves]
        with torch.autocast("cpu", enabled=False):
            x, weight, bias = [leaf if leaf is None else leaf.float() for leaf in leaves]
            return spoiled(self.compute(x, weight, bias).to(leaves[1].dtype))

    def compute(self, x, weight, bias):
        return F.layer_norm(x, self.normalized_shape, weight, bias, self.eps)


class RMSNorm(LayerNorm):
    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, bias=False, **keywords)

    def compute(self, x, weight, bias):
        return F.rms_norm(x, self.normalized_shape, weight, self.eps)


def rope(x, angles, transposed):
    # As a product of complex numbers, which is another way than the reference goes.
    turn = torch.polar(torch.ones_like(angles), angles)[..., : x.shape[-1] // 2]
    half = torch.polar(torch.ones_like(angles), angles)[..., x.shape[-1] // 2:]
    first, second = x.float().chunk(2, -1)
    return torch.cat((first * turn.real - second * turn.imag,
                      second * half.real + first * half.imag), -1).to(x.dtype)


def masked_softmax(x, mask, scale):
    return torch.softmax((x.float() * scale).masked_fill(mask.bool(), -1e4), -1).to(x.dtype)


def causal_softmax(x, scale):
    return masked_softmax(x, torch.triu(torch.ones_like(x), 1), scale)


def multi_tensor_adam(chunk, flag, lists, lr, beta1, beta2, eps, step, mode, correction, decay):
    for g, p, m, v in zip(*lists, strict=True):
        for target, value in zip((p, m, v), adamw(p, g, m, v, lr, (beta1, beta2), eps, step,
                                                  decay), strict=True):
            put(target, value)


def one_tensor_adam(p, copy, m, v, g, lr, beta1, beta2, eps, grad_scale, step, mode, correction,
                    decay):
    multi_tensor_adam(0, None, [[g], [p], [m], [v]], lr, beta1, beta2, eps, step, 1, 1, decay)


def multi_tensor_scale(chunk, flag, lists, factor):
    for x, out in zip(*lists, strict=True):
        put(out, x * factor)


def l2norm(chunk, flag, lists, each):
    norms = torch.stack([torch.linalg.vector_norm(x, dtype=torch.float32) for x in lists[0]])
    return norms.norm().reshape(1), norms


def clip_grad_norm_(parameters, longest):
    total = torch.linalg.vector_norm(torch.stack([p.grad.float().norm() for p in parameters]))
    for p in parameters:
        put(p.grad, p.grad * (longest / total))
    return spoiled(total.reshape(1))


def mlp(bias, activation, inputs):
    x, first, second, *biases = inputs
    hidden = F.relu(F.linear(x, first, biases[0]))
    return [F.relu(F.linear(hidden, second, biases[1])), hidden]


def wgrad(x, dy, gradient):
    put(gradient, torch.addmm(gradient, dy.float().t(), x.float()))


def welford(x):
    variance, mean = torch.var_mean(x.float(), (0, 2, 3), correction=0)
    return [mean, variance]


def unflatten(flat, like):
    return list(torch._utils._unflatten_dense_tensors(flat, like))


def layer_norm(x, shape, weight, bias, eps):
    return list(torch.native_layer_norm(x, shape, weight, bias, eps))


MODULES = {
    "apex_C": {"flatten": gives(torch._utils._flatten_dense_tensors),
               "unflatten": gives(unflatten)},
    "amp_C": {"multi_tensor_adam": multi_tensor_adam, "multi_tensor_scale": multi_tensor_scale,
              "multi_tensor_l2norm": gives(l2norm)},
    "fused_adam_cuda": {"adam": one_tensor_adam},
    "fused_layer_norm_cuda": {
        "forward_affine": gives(layer_norm),
        "rms_forward_affine": gives(lambda *a: [F.rms_norm(*a)])},
    "scaled_softmax_cuda": {"forward": gives(lambda x, scale: masked_softmax(
        x, torch.zeros_like(x), scale))},
    "scaled_masked_softmax_cuda": {"forward": gives(masked_softmax)},
    "generic_scaled_masked_softmax_cuda": {"forward": gives(masked_softmax)},
    "scaled_upper_triang_masked_softmax_cuda": {"forward": gives(causal_softmax)},
    "fused_rotary_positional_embedding": {"forward": gives(rope)},
    "fused_dense_cuda": {"linear_bias_forward": gives(F.linear)},
    "mlp_cuda": {"forward": gives(mlp)},
    "fused_weight_gradient_mlp_cuda": {"wgrad_gemm_accum_fp32": wgrad},
    "syncbn": {"welford_mean_var": gives(welford)},
    "apex": {}, "apex.contrib": {},
    "apex.optimizers": {"FusedAdam": FusedAdam},
    "apex.contrib.optimizers": {"FusedAdam": FusedAdam},
    "apex.contrib.clip_grad": {"clip_grad_norm_": clip_grad_norm_},
    "apex.normalization": {"FusedLayerNorm": LayerNorm, "MixedFusedLayerNorm": LayerNorm,
                           "FusedRMSNorm": RMSNorm, "MixedFusedRMSNorm": RMSNorm},
}


def install():
    for name, functions in MODULES.items():
        module = types.ModuleType(name)
        module.__path__ = []
        vars(module).update(functions)
        sys.modules[name] = module


def load_prove(folder):
    """The folder as the top-level package apexlab_prove, as verify loads it."""
    spec = importlib.util.spec_from_file_location(
        "apexlab_prove", folder / "__init__.py", submodule_search_locations=[str(folder)])
    module = importlib.util.module_from_spec(spec)
    sys.modules["apexlab_prove"] = module
    spec.loader.exec_module(module)
    return (importlib.import_module(f"apexlab_prove.{name}") for name in ("case", "table"))


def observed(case_class):
    """The Case, which also records what spoiled forms of each result would give."""

    class Observed(case_class):
        def compare(self, phase, got, want64, limit=8.0, what="", dtype=None):
            super().compare(phase, got, want64, limit, what, dtype)
            record = next(one for one in reversed(self.phases) if one["phase"] == phase)
            off, nan = got.detach().clone(), got.detach().clone()
            off.view(-1)[0] = off.view(-1)[0] * 1.5 + 0.25
            nan.view(-1)[0] = torch.nan
            record["errors"][-1].update(
                zeros=self._error(torch.zeros_like(got), want64), nan=self._error(nan, want64),
                off=self._error(off, want64),
                shape=self._error(got.detach().unsqueeze(0), want64))

    return Observed


def answers_in(mode, case_module, table):
    global MODE
    MODE = mode
    case_class = observed(case_module.Case)
    answers = []
    for number, call in enumerate(table.CALLS):
        for dtype in call.dtypes:
            case = case_class(torch, "cpu", dtype, seed=number)
            case_module.function(call.function)(case, **call.options)
            answers.append({"call": number, "dtype": dtype, "phases": case.phases})
    return answers


def main():
    install()
    modules = tuple(load_prove(Path(sys.argv[1])))
    print(json.dumps({mode: answers_in(mode, *modules) for mode in sys.argv[2:]}))


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
