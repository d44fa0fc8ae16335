"""Text as rows of numbers, with a tokenizer and without."""

from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from pol.capture.author.text import text_rows
from pol.errors import JobError


def test_characters_are_numbered_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("cabbage" * 30)
    found = text_rows(path, 7)
    assert found.words == 5
    assert found.train["x"].dtype == np.int64
    np.testing.assert_array_equal(found.train["x"][0], [2, 0, 1, 1, 0, 4, 3])
    np.testing.assert_array_equal(found.train["y"][0], [0, 1, 1, 0, 4, 3, 2])
    # 209 numbers have a successor
    assert [len(rows["x"]) for rows in (found.train, found.holdout)] == [27, 2]


def test_a_tokenizer_is_named_by_its_hash(tmp_path: Path) -> None:
    words = {"[UNK]": 0, "one": 1, "two": 2}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    file, path = tmp_path / "tokenizer.json", tmp_path / "a.txt"
    tokenizer.save(str(file))
    path.write_text("one two three " * 5)
    found = text_rows(path, 3, file)
    np.testing.assert_array_equal(found.train["x"][0], [1, 2, 0])
    assert found.words == 3
    assert sha256(file.read_bytes()).hexdigest() in found.source


def test_a_tokenizer_neither_cuts_nor_pads_a_text_and_may_leave_numbers_out(tmp_path: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({"one": 0, "two": 7}, unk_token="one"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=50)
    file, path = tmp_path / "tokenizer.json", tmp_path / "a.txt"
    tokenizer.save(str(file))
    path.write_text("one two " * 10)
    found = text_rows(path, 3, file)
    assert sum(len(rows["x"]) for rows in (found.train, found.holdout)) == 6
    assert found.words == 8


def test_the_mark_in_front_of_a_text_is_no_character(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("ab" * 30, encoding="utf-8-sig")
    assert text_rows(path, 7).words == 2


@pytest.mark.parametrize(
    ("length", "name", "field"),
    [(0, "a.txt", "length"), (50, "a.txt", "data"), (4, "b.txt", "data")],
)
def test_what_makes_no_rows_is_refused(length: int, name: str, field: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("short" * 10)
    with pytest.raises(JobError) as caught:
        text_rows(tmp_path / name, length)
    assert caught.value.field == field
    assert caught.value.remedy


@pytest.mark.parametrize(
    "written",
    ["", "{}" * 99, "[]", '{"version": "1.0"}', '{"model": {"type": "BPE"', "[" * 99_999, "\xff"],
)
def test_what_is_no_tokenizer_is_refused(tmp_path: Path, written: str) -> None:
    path, tokenizer = tmp_path / "a.txt", tmp_path / "tokenizer.json"
    path.write_text("word " * 99)
    tokenizer.write_bytes(written.encode("latin-1"))
    with pytest.raises(JobError, match=r"not a tokenizer: .*; give a tokenizer.json") as caught:
        text_rows(path, 4, tokenizer)
    assert caught.value.field == "tokenizer"


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("é".encode() * 9 + "é".encode("latin-1"))
    with pytest.raises(JobError, match=r"data: .*not UTF-8 text: byte 18 is 0xe9; .*iconv"):
        text_rows(path, 4)
    with pytest.raises(JobError, match=r"data: .*cannot be read: Is a directory"):
        text_rows(tmp_path, 4)
