"""Text as rows of numbers: of characters, or of the tokens of a file that a tokenizer was saved in."""

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
"""Every so manieth row is held out."""


@dataclass(frozen=True)
class TextRows(Readable):
    """Rows of a text, i64 [rows, length]: ``x``, and ``y``, which is what follows each number of ``x``.

    ``words`` is how many different numbers there may be, ``source`` says in a line what they stand for.

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
    """Read a UTF-8 text; without a ``tokenizer.json`` each of its characters is a number, in their order.

    Raises JobError when a file cannot be read, or holds less than two rows, or the tokenizer has another hash.

    Example::

        rows = assay.text_rows("book.txt", length=64)
        job = assay.JobSpec(..., train=rows.train, holdout=rows.holdout)
    """
    path = Path(path)
    if length < 1:
        raise JobError("length", f"{length} is no length of a row", "give a positive integer")
    text = _text(path)
    if tokenizer is None:
        array, words = _characters(text)
        source = f"{words} different characters of {path.name}"
    else:
        tokenizer = Path(tokenizer)
        written = _read(tokenizer, "tokenizer")
        found = sha256(written).hexdigest()
        if tokenizer_sha256 not in (None, found):
            reason = f"{tokenizer} has the SHA-256 {found}"
            raise JobError("tokenizer", reason, "give the file that was meant, or its hash")
        encoder = _tokenizer(written, tokenizer)
        # of what it was last used for, and not of a whole text
        encoder.no_truncation()
        encoder.no_padding()
        # numbers may be left out
        words = max(encoder.get_vocab().values(), default=-1) + 1
        array = np.asarray(encoder.encode(text).ids, np.int64)
        source = f"{words} tokens of {tokenizer.name}, SHA-256 {found}"
    rows = (len(array) - 1) // length
    if rows < 2:
        reason = f"{len(array)} numbers make {max(rows, 0)} rows of {length}"
        raise JobError("data", reason, "give a longer text, or a smaller length")
    x, y = (array[shift : shift + rows * length].reshape(rows, length) for shift in (0, 1))
    kept = np.arange(rows) % HELD_OUT == min(HELD_OUT, rows) - 1
    return TextRows(
        train={"x": x[~kept], "y": y[~kept]},
        holdout={"x": x[kept], "y": y[kept]},
        words=words,
        source=source,
    )


def _text(path: Path) -> str:
    try:
        # without the mark that some write in front
        return _read(path, "data").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reason = f"{path} is no text in UTF-8: byte {error.start} is {error.object[error.start]:#04x}"
        raise JobError("data", reason, "write it in that encoding, as iconv does") from None


def _characters(text: str) -> tuple[Array, int]:
    """Return the number of each character among those that occur, in their order, and how many there are."""
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
        reason = "reading it needs the package tokenizers"
        raise JobError("tokenizer", reason, "install assay[models]") from None
    try:
        return Tokenizer.from_str(written.decode())
    # the library raises plain exceptions
    except Exception as error:
        reason = f"{path} is no tokenizer: {first_line(error)}"
        raise JobError("tokenizer", reason, "give a tokenizer.json") from error
