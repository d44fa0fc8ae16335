"""Small numbers in words of 64 bits.

A word holds as many whole numbers as fit. The bits that are left in each word hold further numbers in pieces. So 64
numbers of 12 bits take 12 words: five whole numbers in each, and the other four in pieces of 4 bits.
"""

import torch

WORD = 64
"""Bits of a word."""


def _room(bits: int) -> tuple[int, int, int]:
    """Return the whole numbers per word, the bits that are left, and the pieces of a number that is in pieces."""
    whole, left = divmod(WORD, bits)
    return whole, left, -(-bits // left) if left else 0


def word_count(count: int, bits: int) -> int:
    """Return the number of words that hold ``count`` numbers of ``bits`` bits."""
    whole, _, pieces = _room(bits)
    words = max(1, -(-count * bits // WORD))
    while words * whole + (words // pieces if pieces else 0) < count:
        words += 1
    return words


def pack(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Return rows of words with the numbers of each row of ``values``, which are 0 to 2^``bits`` - 1."""
    rows, count = values.shape
    whole, left, pieces = _room(bits)
    words = word_count(count, bits)
    first = min(count, words * whole)
    inside = _padded(values[:, :first], words * whole).reshape(rows, words, whole)
    packed: torch.Tensor = (inside * _powers(range(0, whole * bits, bits))).sum(2)
    if first < count:
        split = _shifted(values[:, first:].unsqueeze(2), range(0, pieces * left, left)) % (1 << left)
        split = _padded(split.reshape(rows, -1), words)
        packed = packed + split * _powers([whole * bits])
    return packed


def unpack(words: torch.Tensor, count: int, bits: int) -> torch.Tensor:
    """Return the ``count`` numbers in each row of words; the last dimension of ``words`` is that of the words."""
    whole, left, pieces = _room(bits)
    outer, size = words.shape[:-1], words.shape[-1]
    inside = _shifted(words.unsqueeze(-1), range(0, whole * bits, bits)) % (1 << bits)
    values = inside.reshape(*outer, size * whole)
    rest = count - size * whole
    if rest <= 0:
        return values[..., :count]
    split = _shifted(words, [whole * bits]) % (1 << left)
    split = split[..., : rest * pieces].reshape(*outer, rest, pieces)
    return torch.cat([values, (split * _powers(range(0, pieces * left, left))).sum(-1)], -1)


def _padded(values: torch.Tensor, count: int) -> torch.Tensor:
    """Return rows with zeros behind their numbers."""
    missing = count - values.shape[1]
    return torch.nn.functional.pad(values, (0, missing)) if missing else values


def _powers(exponents: "range | list[int]") -> torch.Tensor:
    """Return powers of two as integers of 64 bits, which wrap: 2^63 is the word whose top bit alone is set."""
    return torch.tensor([1 << e if e < WORD - 1 else -(1 << e) for e in exponents])


def _shifted(words: torch.Tensor, shifts: "range | list[int]") -> torch.Tensor:
    """Return words that are divided by powers of two and rounded down.

    2^63 is not an integer of 64 bits, so for it a word is divided twice.
    """
    if max(shifts) < WORD - 1:
        return torch.div(words, _powers(shifts), rounding_mode="floor")
    once = torch.div(words, _powers([shift // 2 for shift in shifts]), rounding_mode="floor")
    return torch.div(once, _powers([shift - shift // 2 for shift in shifts]), rounding_mode="floor")
