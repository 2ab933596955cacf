"""The two Transformers again, in numpy and float64, written for the eye: no torch, no fusion."""

import math

import numpy as np

erf = np.vectorize(math.erf)


def all_logits(kind, heads, eps, weights, tokens):
    """(B, T, vocabulary). `weights` maps the model's parameter names to arrays."""
    weights = {name: value.astype(np.float64) for name, value in weights.items()}
    return np.stack([logits(kind, heads, eps, weights, row) for row in tokens])


def loss(scores, targets):
    """Mean cross-entropy of logits."""
    scores = scores - scores.max(axis=-1, keepdims=True)
    likelihood = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    return -np.take_along_axis(likelihood, targets[..., None], -1).mean()


def logits(kind, heads, eps, w, row):
    x = w["tokens.weight"][row]
    if kind == "gpt":
        x = x + np.stack([w["positions.weight"][place] for place in range(len(row))])
    for layer in range(sum(name.endswith("qkv.weight") for name in w)):
        at = f"blocks.{layer}."
        x = x + attention(kind, heads, w, at, norm(kind, eps, w, at + "attention_norm", x))
        x = x + feed_forward(kind, w, at + "ffn.", norm(kind, eps, w, at + "ffn_norm", x))
    return norm(kind, eps, w, "norm", x) @ w["tokens.weight"].T


def norm(kind, eps, w, name, x):
    if kind == "gpt":
        x = x - x.mean(axis=1, keepdims=True)
    x = x / np.sqrt((x**2).mean(axis=1, keepdims=True) + eps)
    return x * w[name + ".weight"] + w.get(name + ".bias", 0.0)


def linear(w, name, x):
    return x @ w[name + ".weight"].T + w.get(name + ".bias", 0.0)


def attention(kind, heads, w, at, x):
    q, k, v = np.split(linear(w, at + "attention.qkv", x), 3, axis=1)
    size, mixed = x.shape[1] // heads, np.zeros_like(x)
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        for place in range(len(x)):
            query = turned(kind, q[place, part], place)
            scores = np.array([query @ turned(kind, k[other, part], other) / math.sqrt(size)
                               for other in range(place + 1)])
            share = np.exp(scores - scores.max())
            mixed[place, part] = share / share.sum() @ v[:place + 1, part]
    return linear(w, at + "attention.out", mixed)


def turned(kind, x, place):
    """Rotary positions as a product of complex numbers."""
    if kind == "gpt":
        return x
    half = len(x) // 2
    angles = np.array([place / 10_000 ** (2 * i / len(x)) for i in range(half)])
    z = (x[:half] + 1j * x[half:]) * np.exp(1j * angles)
    return np.concatenate((z.real, z.imag))


def feed_forward(kind, w, at, x):
    up = linear(w, at + "up", x)
    if kind == "gpt":
        return linear(w, at + "down", up * (1 + erf(up / math.sqrt(2))) / 2)
    gate = linear(w, at + "gate", x)
    return linear(w, at + "down", gate / (1 + np.exp(-gate)) * up)
