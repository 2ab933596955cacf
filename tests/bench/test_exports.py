"""Results for TensorBoard and Weights & Biases, read back where the packages are installed."""

import sys

import made_ops
import made_result as made
import pytest

from apexlab.bench.report import exports
from apexlab.verify.errors import CannotError


@pytest.fixture(scope="module")
def result():
    return made.result(ladder="classic", rounds=2, unavailable=["apex-fp32"])


def test_what_was_measured_becomes_a_run_of_scalars(result):
    found = {name: (figures, losses) for name, figures, losses in exports.runs(result)}
    measured = [each for each in result["scenarios"] if each["state"] == "measured"]
    assert list(found) == [each["title"] for each in measured] and len(measured) == 3
    for each in measured:
        figures, losses = found[each["title"]]
        assert figures["ms"] == pytest.approx(1e3 * each["time"]["median"])
        assert figures["memory_gib"] == pytest.approx(each["memory"]["allocated"] / 2**30)
        assert ("speedup" in figures) == (each["name"] != "torch-fp32")
        assert [loss for _, loss in losses] == each["losses"]


def test_a_loss_that_is_no_number_is_left_out(result):
    first = {**result["scenarios"][0], "losses": [10.0, None, 9.0]}
    (_, _, losses), = exports.runs({**result, "scenarios": [first]})
    assert losses == [(0, 10.0), (2, 9.0)]


def test_operations_become_a_run_for_each_provider():
    made_up = made_ops.result(label="stand-in", ops=("adam",), quick=True)
    found = {name: figures for name, figures, _ in exports.runs(made_up)}
    assert "stand-in" in found and not [name for name in found if "apex" in name.lower()]
    point = next(each for each in made_up["points"] if each["provider"] == "torch-fused")
    assert point["gbps"] in found[point["title"]].values()


@pytest.mark.parametrize(("module", "export"), [
    ("tensorboard.summary", exports.to_tensorboard), ("wandb", exports.to_wandb)])
def test_without_the_package_one_sentence_says_what_to_install(
        monkeypatch, result, tmp_path, module, export):
    monkeypatch.setitem(sys.modules, module, None)
    extra = module.partition(".")[0]
    with pytest.raises(CannotError, match=rf"pip install {extra}\."):
        export(result, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_tensorboard_reads_back_what_was_written(result, tmp_path):
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    from tensorboard.util.tensor_util import make_ndarray
    exports.to_tensorboard(result, tmp_path)
    for each in result["scenarios"]:
        folder = tmp_path / each["title"]
        assert folder.is_dir() == (each["state"] == "measured")
        if not folder.is_dir():
            continue
        events = reader.EventAccumulator(str(folder), size_guidance={"tensors": 0})
        events.Reload()
        first, = events.Tensors("tokens_per_second")
        assert make_ndarray(first.tensor_proto) == pytest.approx(each["tokens_per_second"], 1e-6)
        losses = events.Tensors("loss")
        assert [one.step for one in losses] == list(range(len(each["losses"])))
        assert [float(make_ndarray(one.tensor_proto)) for one in losses] == pytest.approx(
            each["losses"], 1e-6)
        assert events.SummaryMetadata("loss").plugin_data.plugin_name == "scalars"


def test_a_folder_that_cannot_be_written_is_one_sentence(result, tmp_path):
    pytest.importorskip("tensorboard")
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotError, match="cannot be written"):
        exports.to_tensorboard(result, tmp_path / "file")


def test_weights_and_biases_takes_every_scenario_without_a_network(result, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    exports.to_wandb(result, "made-up")
    stored = [path.read_bytes() for path in tmp_path.rglob("*.wandb")]
    assert len(stored) == 3
    for each in result["scenarios"]:
        held = [data for data in stored if each["title"].encode() in data]
        assert bool(held) == (each["state"] == "measured")
        assert all(b"tokens_per_second" in data and b"loss" in data for data in held)
