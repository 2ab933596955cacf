"""A file as data is checked before anything is measured."""

from __future__ import annotations

import hashlib

import pytest

from apexlab.bench.model.shape import Shape
from apexlab.bench.model.text import check_text, sequences
from apexlab.verify.errors import UsageError

SHAPE = Shape("gpt", 256, 16, 1, 16, 2, 32)


def refusal(path, shape=SHAPE):
    with pytest.raises(UsageError) as caught:
        check_text(path, shape)
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


def test_a_text_is_known_by_its_hash(tmp_path):
    text = tmp_path / "text"
    text.write_bytes(bytes(range(256)) * 9000)
    assert check_text(text, SHAPE) == hashlib.sha256(text.read_bytes()).hexdigest()


@pytest.mark.parametrize(("size", "says"), [(0, "is empty"), (1, "has 1 bytes"),
                                            (16, "has 16 bytes")])
def test_a_text_shorter_than_a_sequence_and_its_next_byte_is_refused(tmp_path, size, says):
    text = tmp_path / "text"
    text.write_bytes(b"x" * size)
    assert f"{says}, and one sequence of this model takes 17" in refusal(text)


def test_a_text_of_one_sequence_is_enough(tmp_path):
    text = tmp_path / "text"
    text.write_bytes(b"x" * 17)
    assert len(check_text(text, SHAPE)) == 64
    assert [sequences(size, 16) for size in (17, 32, 33, 48, 49)] == [1, 1, 2, 2, 3]


def test_a_vocabulary_without_all_bytes_is_refused(tmp_path):
    assert "takes a vocabulary of 256 or more, and this model has 255" in \
        refusal(tmp_path, Shape("gpt", 255, 16, 1, 16, 2, 32))


def test_what_is_no_file_is_refused(tmp_path):
    assert "is not a file" in refusal(tmp_path)
    assert "cannot be read: No such file or directory" in refusal(tmp_path / "none")
