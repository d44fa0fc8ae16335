"""Text as rows of numbers; each number stands for a character, or for a token of a saved tokenizer."""

import sys
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from domain.readable import Readable
from pol.capture.reports.reasons import first_line
from pol.errors import JobError
from pol.state.arrays import Array

HELD_OUT = 10
"""One row in this many is held out."""


@dataclass(frozen=True)
class TextRows(Readable):
    """Rows of a text as numbers, in the columns ``x`` and ``y``, both i64 [rows, length].

    For each number of ``x``, ``y`` has the next number in the text.

    ``words`` is the size of the vocabulary. ``source`` describes in one line what the numbers stand for.

    Example::

        rows = assay.text_rows("book.txt", length=64)
        print(rows.words, rows.source, rows.train["x"].shape)
    """

    train: dict[str, Array]
    holdout: dict[str, Array]
    words: int
    source: str


def text_rows(
    path: Path | str,
    length: int,
    tokenizer: Path | str | None = None,
    tokenizer_sha256: str | None = None,
) -> TextRows:
    """Read a UTF-8 text as rows of numbers.

    Each number stands for a token of ``tokenizer``, the path of a ``tokenizer.json``. Without a tokenizer, each
    different character has a number, in the order of code points.

    Raises JobError if a file cannot be read, if the text has fewer than two rows, or if the tokenizer's hash is not
    ``tokenizer_sha256``.

    Example::

        rows = assay.text_rows("book.txt", length=64)
        job = assay.JobSpec(..., train=rows.train, holdout=rows.holdout)
    """
    path = Path(path)
    if length < 1:
        raise JobError("length", f"{length} is not the length of a row", "give a positive integer, such as 128")
    text = _text(path)
    if tokenizer is None:
        array, words = _characters(text)
        source = f"{words} different characters of {path.name}"
    else:
        tokenizer = Path(tokenizer)
        written = _read(tokenizer, "tokenizer")
        digest = sha256(written).hexdigest()
        if tokenizer_sha256 not in (None, digest):
            reason = f"{tokenizer} has the SHA-256 {digest}, not {tokenizer_sha256}"
            raise JobError("tokenizer", reason, "give the file with the expected hash, or correct the hash")
        encoder = _tokenizer(written, tokenizer)
        # a saved tokenizer may keep settings of its last use
        encoder.no_truncation()
        encoder.no_padding()
        # a vocabulary may skip numbers
        words = max(encoder.get_vocab().values(), default=-1) + 1
        array = np.asarray(encoder.encode(text).ids, np.int64)
        source = f"{words} different tokens of {tokenizer.name}, SHA-256 {digest}"
    rows = (len(array) - 1) // length
    if rows < 2:
        reason = f"{len(array)} tokens make {max(rows, 0)} rows of {length}, but at least two are needed"
        raise JobError("data", reason, "give a longer text, or a smaller length")
    x, y = (array[shift : shift + rows * length].reshape(rows, length) for shift in (0, 1))
    held_out = np.arange(rows) % HELD_OUT == min(HELD_OUT, rows) - 1
    return TextRows(
        train={"x": x[~held_out], "y": y[~held_out]},
        holdout={"x": x[held_out], "y": y[held_out]},
        words=words,
        source=source,
    )


def _text(path: Path) -> str:
    try:
        # without the byte order mark that some editors write
        return _read(path, "data").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reason = f"{path} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}"
        raise JobError("data", reason, f"convert it, such as: iconv -f latin1 -t utf8 {path.name} > utf8.txt") from None


def _characters(text: str) -> tuple[Array, int]:
    """Return the number of each character of a text, and the count of different characters.

    The number of a character is its rank by code point among the characters of the text.
    """
    codes = np.frombuffer(text.encode("utf-32-le"), "<u4")
    occurs = np.zeros(sys.maxunicode + 1, bool)
    occurs[codes] = True
    return (np.cumsum(occurs, dtype=np.int64) - 1)[codes], int(occurs.sum())


def _read(path: Path, field: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        reason = f"{path} cannot be read: {error.strerror}"
        raise JobError(field, reason, "give the path of a file") from error


def _tokenizer(written: bytes, path: Path) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        reason = f"reading {path.name} needs the package tokenizers"
        raise JobError("tokenizer", reason, "install assay[models]") from None
    try:
        return Tokenizer.from_str(written.decode())
    # the library raises plain exceptions
    except Exception as error:
        reason = f"{path} is not a tokenizer: {first_line(error)}"
        raise JobError("tokenizer", reason, "give a tokenizer.json") from error
