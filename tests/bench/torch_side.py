"""Runs the torch side on a CPU: python torch_side.py FOLDER_OF_STANDIN

Prints one JSON document, {case: what it found}. The stand-in's Python side is there as apex; its
norms run torch's code on a CPU, and its compiled modules are empty.
"""

import json
import sys
import types

import plain_transformer
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from apexlab.bench.model import probes
from apexlab.bench.model.norms import norm_factory
from apexlab.bench.model.optimizers import make_optimizer
from apexlab.bench.model.settings import NORM_EPS, OPTIMIZERS, Hyperparameters, Settings
from apexlab.bench.model.shape import Shape
from apexlab.bench.model.step import Step, make_step
from apexlab.bench.model.stream import Stream
from apexlab.bench.model.transformer import Transformer
from apexlab.bench.model.weights import digest, initialise

sys.path.insert(0, sys.argv[1])
for name in ("amp_C", "fused_layer_norm_cuda"):
    module = types.ModuleType(name)
    for function in ("", "_capturable", "_capturable_master"):
        setattr(module, f"multi_tensor_adam{function}", None)
    sys.modules[name] = sys.modules[f"apex._extensions.{name}"] = module
torch.set_num_threads(1)  # the tensors are small, and the machine may be busy
CPU = torch.device("cpu")
SMALL = {"gpt": Shape("gpt", 64, 32, 2, 32, 4, 96), "llama": Shape("llama", 64, 32, 2, 32, 4, 80)}
LARGE = {"gpt": Shape("gpt", 50304, 1024, 12, 768, 12, 3072),
         "llama": Shape("llama", 50304, 1024, 12, 768, 12, 2048)}
# With the precision that the norm is for.
NORMS = {"torch": "fp32", "torch-lowp": "amp-bf16", "apex": "fp32"}
AMP_CPU = {"precision": "amp-bf16"}
FAST = Hyperparameters(lr=1e-2)


def model_of(kind, shapes=SMALL, **switches):
    settings = Settings(**switches)
    return Transformer(shapes[kind], norm_factory(settings, kind))


def batches(count, rows=8, length=32):
    stream = torch.tensor(Stream(64, 1).tokens(count * rows * length + 1))
    for start in range(0, count * rows * length, rows * length):
        part = stream[start:start + rows * length + 1].long()
        yield part[:-1].view(rows, length), part[1:].view(rows, length)


def step_of(kind="gpt", **switches):
    return make_step(SMALL[kind], Settings(adamw=FAST, **switches), "cpu", 7)


def losses(count, **switches):
    step = step_of(**switches)
    return [float(step(*batch)) for batch in batches(count)]


def parameters():
    with torch.device("meta"):
        return {kind: [shapes[kind].parameters(),
                       sum(p.numel() for p in model_of(kind, shapes).parameters())]
                for shapes in (LARGE,) for kind in LARGE} | {
            f"small {kind}": [SMALL[kind].parameters(),
                              sum(p.numel() for p in model_of(kind).parameters())]
            for kind in SMALL}


def same_weights():
    found = {}
    for kind in SMALL:
        for norm, precision in NORMS.items():
            torch.rand(len(found))  # what was drawn before does not count
            model = model_of(kind, norm=norm, precision=precision)
            initialise(model, 7)
            found[f"{kind} {norm}"] = digest(model)
        model._modules = dict(reversed(model._modules.items()))
        initialise(model, 7)
        found[f"{kind} in another order"] = digest(model)
        found[f"{kind} in a step"] = digest(step_of(kind, optimizer="torch-loop").model)
        initialise(model, 8)
        found[f"{kind} from another seed"] = digest(model)
    return found


def first_values():
    """[name, mean, spread, first value] of all parameters."""
    return [[name, float(p.mean()), float(p.std()), float(p.flatten()[0])]
            for name, p in step_of("gpt").model.named_parameters()]


def learning():
    runs = {"gpt": {}, "llama": {"kind": "llama"}, "gpt bf16": AMP_CPU,
            "llama bf16": {"kind": "llama", **AMP_CPU},
            "gpt apex": {"norm": "apex"}, "llama apex": {"kind": "llama", "norm": "apex"},
            "gpt lowp": {"norm": "torch-lowp", **AMP_CPU},
            "llama lowp": {"kind": "llama", "norm": "torch-lowp", **AMP_CPU},
            "gpt clipped": {"clip": 0.5},
            **{name: {"optimizer": name} for name in ("torch-loop", "torch-fused")}}
    return {name: losses(60, **switches) for name, switches in runs.items()}


def against_float64():
    """{kind: errors of logits and loss against the plain formulation, weights hiding nothing}."""
    found = {}
    for kind in SMALL:
        model, generator = model_of(kind), torch.Generator().manual_seed(3)
        with torch.no_grad():
            for name, p in model.named_parameters():
                p.copy_(torch.randn(p.shape, generator=generator) * 0.5)
                if name.split(".")[0] in ("tokens", "positions"):
                    p.mul_(0.03)  # so small that the norms' epsilon shows
        tokens, targets = next(batches(1, rows=2, length=24))
        weights = {name: p.detach().numpy() for name, p in model.named_parameters()}
        plain = plain_transformer.all_logits(kind, SMALL[kind].heads, NORM_EPS, weights,
                                             tokens.numpy())
        loss = plain_transformer.loss(plain, targets.numpy())
        with torch.no_grad():
            off = abs(model.logits(tokens).numpy() - plain).max() / abs(plain).max()
            found[kind] = [float(off), abs(float(model(tokens, targets)) / loss - 1)]
    return found


def norms():
    """{norm: [dtype of its result under BF16 autocast, its largest error in FP32 or BF16]} for
    an input so small that the epsilon is half of what is under the root."""
    x, found = torch.randn(16, 32, generator=torch.Generator().manual_seed(5)) * 0.003, {}
    for kind in SMALL:
        centred = x.double() - (x.double().mean(1, keepdim=True) if kind == "gpt" else 0)
        exact = centred / (centred.pow(2).mean(1, keepdim=True) + NORM_EPS).sqrt()
        for name, precision in NORMS.items():
            norm = norm_factory(Settings(norm=name, precision=precision), kind)(32)
            with torch.autocast("cpu", torch.bfloat16):
                low = norm(x)
            y = low if name == "torch-lowp" else norm(x)
            found[f"{kind} {name}"] = [str(low.dtype), float((y.double() - exact).abs().max())]
    return found


def future_is_hidden():
    found = {}
    for kind in SMALL:
        tokens = next(batches(1))[0]
        other = tokens.clone()
        other[:, 20] = (other[:, 20] + 1) % 64
        model = step_of(kind).model
        moved = (model.logits(tokens) - model.logits(other)).abs().amax((0, 2))
        found[kind] = [float(moved[:20].max()), float(moved[20:].min())]
    return found


def hyperparameters():
    """Every group's numbers, with the stand-in's FusedAdam made on a GPU that is not there."""
    adamw, found = Hyperparameters(0.5, (0.1, 0.2), 0.3, 0.4), {}
    for name in OPTIMIZERS:
        precision = "fp16-weights" if name == "apex-master" else "fp32"
        settings = Settings(optimizer=name, precision=precision, adamw=adamw)
        p = torch.nn.Parameter(torch.zeros(2))
        with FakeTensorMode(allow_non_fake_inputs=True) if "apex" in name else torch.no_grad():
            optimizer = make_optimizer(settings, [p])
            group, = optimizer.param_groups
            found[name] = [type(optimizer).__module__, float(group["lr"]), *group["betas"],
                           group["eps"], group["weight_decay"], group.get("foreach"),
                           group.get("fused"), getattr(optimizer, "capturable", None),
                           getattr(optimizer, "master_weights", None),
                           getattr(optimizer, "adam_w_mode", 1)]
    return found


class Watch(TorchDispatchMode):
    """Counts what makes the host wait for the device."""

    def __init__(self):
        super().__init__()
        self.syncs = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.overloadpacket.__name__
        self.syncs += name in ("_local_scalar_dense", "nonzero", "is_nonzero", "equal")
        return function(*args, **(kwargs or {}))


def syncs(step):
    with Watch() as watch:
        for batch in batches(3):
            step(*batch)
    return watch.syncs


def host_syncs():
    found = {"control": syncs(lambda tokens, targets: tokens[0, 0].item())}
    for kind in SMALL:
        # The one whose own step waits for nothing, on a CPU as on a GPU.
        step = step_of(kind, optimizer="torch-fused", clip=1.0, **AMP_CPU)
        found[kind] = syncs(step)
        step.scaler = torch.amp.GradScaler("cpu")
        found[f"{kind} scaled"] = syncs(step)
    return found


def clipping():
    """The length of one SGD step of size 1, which is that of the gradient that was left."""
    found, batch = {}, next(batches(1))
    for scale in (None, 1.0, 2.0**16):
        for clip in (None, 0.01, 1e6):
            model = step_of().model
            before = torch.cat([p.detach().clone().flatten() for p in model.parameters()])
            scaler = scale and torch.amp.GradScaler("cpu", init_scale=scale)
            Step(model, torch.optim.SGD(model.parameters(), lr=1.0), Settings(clip=clip), CPU,
                 scaler)(*batch)
            after = torch.cat([p.detach().flatten() for p in model.parameters()])
            found[f"{scale} {clip}"] = float((after - before).norm())
    return found


def half_weights():
    """The length of clipped FP16 gradients whose length before was beyond FP16."""
    model, lengths = step_of("llama").model.half(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    optimizer.register_step_pre_hook(lambda *_: lengths.append(float(torch.cat(
        [p.grad.float().flatten() for p in model.parameters()]).norm())))
    step = Step(model, optimizer, Settings(clip=100.0), CPU)
    step.backward(step.forward(*next(batches(1))) * 2.0**17)
    step.update()
    return lengths


def overflow():
    """(weights unchanged, scale halved) after a gradient with an infinite element."""
    step = step_of(optimizer="torch-fused", clip=1.0)
    step.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    before = digest(step.model)
    step.backward(step.forward(*next(batches(1))))
    step.parameters[0].grad[0, 0] = float("inf")
    step.update()
    return [digest(step.model) == before, step.scaler.get_scale()]


def backends():
    found = {}
    for backend in (SDPBackend.FLASH_ATTENTION, SDPBackend.MATH):
        step, batch = step_of(), next(batches(1))
        with sdpa_kernel(backend):
            found[backend.name] = probes.attention_backends(lambda: step(*batch))  # noqa: B023
    return {**found, "nothing": probes.attention_backends(lambda: torch.ones(2) + 1)}


def product():
    exact = probes.product_error("cpu")
    with torch.autocast("cpu", torch.bfloat16):
        return [exact, probes.product_error("cpu")]


def compiling():
    """{model: [loss, loss of the code that Dynamo made of it in one graph]}."""
    found, batch = {}, next(batches(1))
    for kind in SMALL:
        for norm, precision in NORMS.items():
            step = step_of(kind, norm=norm, precision=precision)
            plain = float(step.forward(*batch).detach())
            step.run = torch.compile(step.model, backend="eager", fullgraph=True)
            found[f"{kind} {norm}"] = [plain, float(step.forward(*batch).detach())]
    return found


def refused():
    found = {}
    for name, switches in {"fp16": {"precision": "amp-fp16"}, "tf32": {"precision": "tf32"},
                           "graph": {"graph": True}, "adam": {"optimizer": "apex"}}.items():
        try:
            step_of(**switches)
        except Exception as error:
            found[name] = [type(error).__name__, str(error)]
    return found


CASES = (parameters, same_weights, first_values, learning, against_float64, norms,
         future_is_hidden, hyperparameters, host_syncs, clipping, half_weights, overflow,
         backends, product, compiling, refused)
print(json.dumps({case.__name__: case() for case in CASES}))
