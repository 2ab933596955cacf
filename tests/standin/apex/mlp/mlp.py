"""Several linear layers, each with its activation, through mlp_cuda."""

import torch
from torch import nn

from .._compiled import module

mlp_cuda = module("mlp_cuda")

ACTIVATIONS = {"none": 0, "relu": 1, "sigmoid": 2}


class MlpFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, bias, activation, *inputs):
        outputs = mlp_cuda.forward(bias, activation, list(inputs))
        ctx.bias, ctx.activation, ctx.outputs = bias, activation, outputs
        ctx.save_for_backward(*inputs)
        return outputs[0].detach()

    @staticmethod
    def backward(ctx, dy):
        gradients = mlp_cuda.backward(ctx.bias, ctx.activation, dy, ctx.outputs,
                                      list(ctx.saved_tensors))
        return (None, None, *gradients)


def mlp_function(bias, activation, *inputs):
    return MlpFunction.apply(bias, activation, *inputs)


class MLP(nn.Module):
    def __init__(self, mlp_sizes, bias=True, activation="relu"):
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        shapes = list(zip(mlp_sizes[1:], mlp_sizes[:-1]))
        self.weights = nn.ParameterList(
            [nn.init.kaiming_uniform_(nn.Parameter(torch.empty(shape))) for shape in shapes])
        self.biases = nn.ParameterList(
            [nn.Parameter(torch.zeros(shape[0])) for shape in shapes] if bias else [])

    def forward(self, input):
        return mlp_function(int(len(self.biases) > 0), self.activation, input, *self.weights,
                            *self.biases)
