"""What a scenario may switch, and what is refused before anything is measured."""

from __future__ import annotations

import pytest

from apexlab.bench.model.settings import Settings
from apexlab.bench.model.shape import Shape
from apexlab.verify.errors import UsageError

SMALL = {"kind": "gpt", "vocabulary": 64, "context": 32, "layers": 2, "width": 32, "heads": 4,
         "ffn": 96}


@pytest.mark.parametrize(("switches", "message"), [
    ({"norm": "tensorflow"}, "no norm 'tensorflow'; there are torch, torch-lowp, apex"),
    ({"optimizer": "adam"}, "no optimizer 'adam'; there are torch-loop, torch-foreach"),
    ({"precision": "fp8"}, "no precision 'fp8'; there are fp32, tf32"),
    ({"norm": "torch-lowp"}, "choose the precision amp-bf16"),
    ({"optimizer": "apex-master"}, "belong together"),
    ({"precision": "fp16-weights"}, "belong together"),
    ({"graph": True, "precision": "amp-fp16"}, "without a loss scaler"),
    ({"graph": True, "optimizer": "apex"}, "choose apex-capturable"),
    ({"clip": 0.0}, "a length above 0, not 0.0"),
])
def test_switches_that_would_be_measured_as_something_else_are_refused(switches, message):
    with pytest.raises(UsageError, match=message):
        Settings(**switches)


@pytest.mark.parametrize("switches", [
    {}, {"norm": "torch-lowp", "precision": "amp-fp16"}, {"graph": True, "compile": True},
    {"optimizer": "apex-master", "precision": "fp16-weights"},
    {"optimizer": "apex-capturable", "graph": True, "precision": "amp-bf16", "clip": 1.0},
])
def test_switches_that_fit_together_are_taken(switches):
    assert Settings(**switches)


@pytest.mark.parametrize(("field", "value", "message"), [
    ("kind", "bert", "no model of kind 'bert'"),
    ("layers", 0, "layers of a model is a whole number above 0, not 0"),
    ("width", "768", "not '768'"),
    ("vocabulary", True, "not True"),
    ("heads", 5, "5 heads do not divide a width of 32"),
])
def test_a_shape_that_no_model_has_is_refused(field, value, message):
    with pytest.raises(UsageError, match=message):
        Shape(**{**SMALL, field: value})


def test_rotary_positions_need_heads_of_even_width():
    with pytest.raises(UsageError, match="has to be even"):
        Shape(**{**SMALL, "kind": "llama", "width": 12})
