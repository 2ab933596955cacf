"""The tensors of a case and the calls on them, one set for all providers of a case (torch)."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

import torch

from apexlab.bench.model.norms import norm_factory
from apexlab.bench.model.optimizers import make_optimizer
from apexlab.bench.model.settings import Hyperparameters, Settings
from apexlab.bench.ops.cases import LOW, Case
from apexlab.bench.ops.providers import Provider
from apexlab.verify.errors import CannotError

CHUNK = 65536  # numbers that one block of amp_C's kernels takes
LONGEST = 1.0  # to which gradients are clipped
Call = Callable[[], Any]


@dataclass(frozen=True)
class Work:
    """One provider's calls by direction, on `module` or `optimizer`."""

    calls: dict[str, Call]
    optimizer: Any = None
    module: Any = None

    def moment(self) -> str:
        """The dtype of Adam's moments, after a step."""
        states = self.optimizer.state.values() if self.optimizer else ()
        found = next((one["exp_avg"].dtype for one in states if "exp_avg" in one), torch.float32)
        return str(found).split(".")[-1]


class Lists:
    """Parameters around 0 and gradients whose sizes are 0.5 to 1.5, for Adam and for clipping."""

    def __init__(self, case: Case, device: Any) -> None:
        self.case, self.device = case, torch.device(device)
        self.dtype = getattr(torch, case.dtype)
        generator = torch.Generator(self.device).manual_seed(0)
        self.parameters = []
        for size in case.sizes:
            values, gradient = (torch.empty(size, device=self.device) for _ in range(2))
            values.normal_(0, 0.1, generator=generator)
            gradient.uniform_(-1, 1, generator=generator).add_(gradient.sign(), alpha=0.5)
            parameter = values.to(self.dtype).requires_grad_()
            parameter.grad = gradient.to(self.dtype)
            self.parameters.append(parameter)

    @property
    def gradients(self) -> list[Any]:
        return [parameter.grad for parameter in self.parameters]


class Adam(Lists):
    def __init__(self, case: Case, device: Any, adamw: Hyperparameters | None = None) -> None:
        super().__init__(case, device)
        self.adamw = adamw or Hyperparameters()

    def work(self, provider: Provider) -> Work:
        optimizer = self._optimizer(provider)
        step = optimizer.step
        if provider.compiled:
            step = torch.compile(lambda: optimizer.step(), dynamic=False)
        return Work({"step": lambda: step()}, optimizer)

    def _optimizer(self, provider: Provider) -> Any:
        if provider.package == "deepspeed":
            return self._deepspeed()
        name = "torch-foreach" if provider.compiled else provider.name
        return make_optimizer(Settings(optimizer=name, adamw=self.adamw), self.parameters)

    def _deepspeed(self) -> Any:
        try:
            kind = importlib.import_module("deepspeed.ops.adam").FusedAdam
            return kind(self.parameters, **asdict(self.adamw), adam_w_mode=True,
                        bias_correction=True)
        except Exception as error:
            absent = isinstance(error, ModuleNotFoundError) and error.name == "deepspeed"
            raise CannotError("DeepSpeed is not installed here." if absent else
                              f"deepspeed.ops.adam.FusedAdam cannot be made here "
                              f"({type(error).__name__}: {error}).") from error


class Clip(Lists):
    """`scale` is 1 while it is timed, for the gradients are changed in place again and again."""

    def __init__(self, case: Case, device: Any, scale: float = 1.0) -> None:
        super().__init__(case, device)
        self.scale = scale

    def work(self, provider: Provider) -> Work:
        apex = provider.package == "apex"
        return Work({"unscale": self._apex_unscale() if apex else self._unscale(),
                     "clip": self._apex_clip() if apex else self._clip()})

    def _clip(self) -> Call:
        return lambda: torch.nn.utils.clip_grad_norm_(self.parameters, LONGEST)

    def _apex_clip(self) -> Call:
        function = found("apex.contrib.clip_grad", "clip_grad_norm_")
        return lambda: function(self.parameters, LONGEST)

    def _unscale(self) -> Call:
        gradients = self.gradients
        overflow = torch.zeros(1, device=self.device)
        scale = torch.full((1,), self.scale, device=self.device)
        function = torch._amp_foreach_non_finite_check_and_unscale_
        return lambda: function(gradients, overflow, scale)

    def _apex_unscale(self) -> Call:
        function = found("amp_C", "multi_tensor_scale")
        flag = torch.zeros(1, dtype=torch.int32, device=self.device)
        lists = [self.gradients, self.gradients]
        return lambda: function(CHUNK, flag, lists, self.scale)


class Norm:
    """Forward keeps what backward needs, as in training. Under autocast the result is wanted in 16
    bits, as the next product takes it, so a provider that gives FP32 has to convert it."""

    def __init__(self, case: Case, device: Any) -> None:
        self.case, self.device = case, torch.device(device)
        self.dtype = getattr(torch, case.dtype)
        self.out = getattr(torch, LOW) if case.autocast else self.dtype
        generator = torch.Generator(self.device).manual_seed(0)
        self.x, self.dy = (
            torch.empty(case.sizes[0], device=self.device).normal_(generator=generator).to(dtype)
            for dtype in (self.dtype, self.out))
        self.x.requires_grad_()

    def module(self, provider: Provider) -> Any:
        norm = {"apex": "apex", "torch-lowp": "torch-lowp"}.get(provider.name, "torch")
        settings = Settings(norm=norm, precision="amp-bf16" if self.case.autocast else "fp32")
        kind = "llama" if self.case.op == "rmsnorm" else "gpt"
        with self.device:
            made = norm_factory(settings, kind)(self.case.sizes[0][1]).to(self.dtype)
        generator = torch.Generator(self.device).manual_seed(1)
        with torch.no_grad():
            for number, parameter in enumerate(made.parameters()):
                parameter.normal_(1.0 - number, 0.25, generator=generator)  # weight, bias
        return made

    def work(self, provider: Provider) -> Work:
        module, out, x, dy = self.module(provider), self.out, self.x, self.dy
        leaves = [x, *module.parameters()]

        def normalised(given: Any) -> Any:
            return module(given).to(out)

        run = torch.compile(normalised, dynamic=False, fullgraph=True) \
            if provider.compiled else normalised

        def forward() -> Any:
            if not self.case.autocast:
                return run(x)
            with self.autocast():
                return run(x)

        return Work({"forward": forward, "forward+backward": lambda: torch.autograd.grad(
            forward(), leaves, dy)}, module=module)

    def autocast(self) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = torch.autocast(self.device.type, self.out)
        return context


OPERANDS: dict[str, Any] = {"adam": Adam, "layernorm": Norm, "rmsnorm": Norm, "clip": Clip}


def found(module: str, name: str) -> Any:
    """A function of Apex's; CannotError without it. For an extension that lies as a library, the
    module that stands for it is taken."""
    reasons = []
    for place in (module, f"apex._extensions.{module}"):
        try:
            return getattr(importlib.import_module(place), name)
        except Exception as error:
            reasons.append(f"{type(error).__name__}: {error}")
    raise CannotError(f"{module}.{name} cannot be had here ({reasons[0]}). `apexlab verify` says "
                      "what is wrong with this Apex.")
