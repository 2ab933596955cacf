"""Presets: what is shipped, the arithmetic on them, and files of one's own."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apexlab.bench.errors import PresetError
from apexlab.bench.model.shape import Shape
from apexlab.bench.planning.preset import (
    GIB,
    flops_per_token,
    matrix_parameters,
    numbers_of,
    tensors,
)
from apexlab.bench.planning.preset_file import KEYS, find_preset, presets, read_preset

OWN = {"kind": '"gpt"', "layers": 2, "width": 64, "heads": 4, "ffn": 256, "vocabulary": 512,
       "context": 32, "batch": 4}


@pytest.fixture
def own(tmp_path):
    """Writes a preset file: `text`, or a sound one with keys changed, or left out by None."""
    def write(text=None, **changed):
        path = tmp_path / "own.toml"
        rows = {**OWN, **changed}
        path.write_text(text if text is not None else "[mine]\n" + "".join(
            f"{key} = {value}\n" for key, value in rows.items() if value is not None))
        return path
    return write


def test_the_presets_that_are_shipped():
    assert list(presets()) == ["tiny", "gpt-small", "gpt-medium", "llama-small", "cpu"]


@pytest.mark.parametrize("name, millions, matrices, teraflops", [
    ("tiny", 13.9, 13.8, 0.734), ("gpt-small", 124.5, 123.6, 14.0),
    ("gpt-medium", 354.9, 353.5, 19.9), ("llama-small", 123.6, 123.6, 14.0)])
def test_sizes_and_work_are_those_of_the_models_meant(name, millions, matrices, teraflops):
    preset = presets()[name]
    assert preset.shape.parameters() / 1e6 == pytest.approx(millions, abs=0.05)
    assert matrix_parameters(preset.shape) / 1e6 == pytest.approx(matrices, abs=0.05)
    assert preset.flops() / 1e12 == pytest.approx(teraflops, rel=0.005)


def test_llama_small_multiplies_as_much_as_gpt_small():
    small, llama = presets()["gpt-small"], presets()["llama-small"]
    assert flops_per_token(small.shape) == flops_per_token(llama.shape)


def test_flops_by_hand():
    shape = Shape("gpt", vocabulary=10, context=3, layers=1, width=2, heads=1, ffn=5)
    # matrices: 3 x 4 (qkv), 4 (out), 10 + 10 (feed-forward), 20 (head); attention: 12 x 2 x 3
    assert flops_per_token(shape) == 6 * (12 + 4 + 20 + 20) + 72


@settings(deadline=None)
@given(st.sampled_from(["gpt", "llama"]), *(st.integers(1, 40) for _ in range(5)))
def test_the_tensors_of_an_optimizer_add_up_to_the_model(kind, vocabulary, context, layers, half,
                                                         ffn):
    shape = Shape(kind, vocabulary, context, layers, 2 * half, 1, ffn)
    assert numbers_of(tensors(shape)) == shape.parameters()


def test_gpt_small_has_the_tensors_of_gpt_2():
    sizes = tensors(presets()["gpt-small"].shape)
    assert len(sizes) == 148
    assert sizes[:4] == ((50304, 768), (1024, 768), (768,), (768,))


# Peaks seen on one H200 with torch 2.11, FP32; those models had a head of its own.
@pytest.mark.parametrize("name, gib", [("gpt-small", 20.8), ("gpt-medium", 21.9)])
def test_the_memory_estimate_is_near_what_was_measured(name, gib):
    preset = presets()[name]
    head = 16 * preset.shape.vocabulary * preset.shape.width / GIB
    assert preset.memory() + head == pytest.approx(gib, rel=0.05)


def test_memory_grows_with_the_batch():
    preset = presets()["tiny"]
    assert replace(preset, batch=64).memory() > 1.5 * preset.memory()


def test_a_file_of_one_s_own(own):
    preset = find_preset(str(own()))
    assert preset == read_preset(own())
    assert (preset.name, preset.tokens, preset.seconds) == ("mine", 128, 30)
    assert preset.shape == Shape("gpt", 512, 32, 2, 64, 4, 256)


def test_a_shipped_name_wins_over_a_file_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").write_text("[mine]\n")
    assert find_preset("tiny") == presets()["tiny"]
    with pytest.raises(PresetError, match="lacks kind"):
        find_preset("./tiny")


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(PresetError, match=r"no preset 'gpt-smal'\. Did you mean gpt-small"):
        find_preset("gpt-smal")


@pytest.mark.parametrize("changed, said", [
    ({"kind": None}, "lacks kind"),
    ({"layers": None, "batch": None}, "lacks layers, batch"),
    ({"heds": 4}, r"key heds, which means nothing\. Did you mean heads\?"),
    ({"zzz": 4}, r"key zzz, which means nothing\. The keys"),
    ({"layers": '"two"'}, "layers is a whole number from 1 to 1000, not 'two'"),
    ({"layers": "true"}, "layers is a whole number from 1 to 1000, not True"),
    ({"width": "64.0"}, "width is a whole number .* not 64.0"),
    ({"batch": 0}, "batch is a whole number from 1"),
    ({"heads": -4}, "heads is a whole number from 1"),
    ({"vocabulary": 2**18 + 1}, "vocabulary is a whole number from 2 to 262144, not 262145"),
    ({"context": 1}, "context is a whole number from 2"),
    ({"seconds": 0}, "seconds is a whole number from 1"),
    ({"heads": 5}, "is no model: 5 heads do not divide"),
    ({"kind": '"bert"'}, "is no model: There is no model of kind 'bert'"),
    ({"kind": "7"}, "is no model: There is no model of kind 7"),
    ({"kind": '"llama"', "width": 12, "heads": 4}, "is no model: Rotary"),
])
def test_each_kind_of_fault_in_a_preset_is_named(own, changed, said):
    with pytest.raises(PresetError, match=said) as raised:
        read_preset(own(**changed))
    assert "mine in " in str(raised.value)


@pytest.mark.parametrize("text, said", [
    ("[mine\n", "is not TOML"),
    ("", r"has none\. A preset file holds one table"),
    ("[a]\n[b]\n", "has 2: a, b"),
    ("layers = 2\n", "is not a table: layers stands at the top"),
    ("[gpt-small]\n", "the name of a shipped one"),
    ("# " + "x" * 2**20, "is larger than"),
    ("a = " + "[" * 5000, "is not TOML"),
])
def test_a_file_that_describes_no_model_is_refused(own, text, said):
    with pytest.raises(PresetError, match=said):
        read_preset(own(text))


def test_files_that_cannot_be_read_are_refused(tmp_path):
    with pytest.raises(PresetError, match="No such file"):
        find_preset(str(tmp_path / "absent.toml"))
    with pytest.raises(PresetError, match="is not a file"):
        find_preset(str(tmp_path))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PresetError, match="is not TOML"):
        find_preset(str(tmp_path / "binary.toml"))


def test_every_key_is_explained_in_the_shipped_file():
    from apexlab.bench.planning.preset_file import SHIPPED
    head = SHIPPED.read_text().split("[tiny]")[0]
    assert [key for key in KEYS if key not in head] == []


@pytest.mark.parametrize("name", ["../../evil", "a/b", "", "<script>", "x\x1b[2J", "a b", "n" * 65,
                                  ".hidden"])
def test_a_name_that_is_no_name_for_a_folder_is_refused(tmp_path, name):
    """The folder of a run is named after its preset, and so are rows of tables."""
    path = tmp_path / "own.toml"
    rows = "".join(f"{key} = {value}\n" for key, value in OWN.items())
    path.write_text(f"[{json.dumps(name)}]\n{rows}")
    with pytest.raises(PresetError, match="Name it with letters"):
        read_preset(path)
