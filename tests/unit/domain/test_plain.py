"""The strict reader: exactly the fields, within their bounds, and the path of what does not fit."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any

import pytest

from domain import codec, plain
from domain.bounds import Count, Hash, Length, Mismatch, Name, Size, Sorted
from domain.errors import Refusal
from domain.genesis import GenesisAccount
from domain.ledger.records import Coin


class Kind(IntEnum):
    ONE = 1
    TWO = 2


@dataclass(frozen=True)
class Part:
    root: Hash
    kind: Kind


@dataclass(frozen=True)
class Whole:
    count: Count
    ready: bool
    names: Annotated[tuple[Name, ...], Length(0, 3), Sorted()]
    parts: Annotated[tuple[Part, ...], Length(1, 2)]
    numbers: Mapping[Name, Count]
    last: Part | None


PART = {"root": "ab" * 32, "kind": 2}
WHOLE: dict[str, Any] = {
    "count": 7,
    "ready": True,
    "names": ["a", "b"],
    "parts": [PART],
    "numbers": {"x": 1},
    "last": None,
}


def test_a_value_comes_back() -> None:
    read = plain.read(Whole, WHOLE)
    part = Part(b"\xab" * 32, Kind.TWO)
    assert read == Whole(7, True, ("a", "b"), (part,), {"x": 1}, None)
    assert type(read.parts[0].kind) is Kind
    assert codec.to_plain(read.parts) == WHOLE["parts"]


def test_a_part_that_was_read_before_is_taken() -> None:
    part = Part(bytes(32), Kind.ONE)
    assert plain.read(Whole, {**WHOLE, "last": part}).last is part


REFUSED = [
    ({"count": True}, "count", "integer"),
    ({"count": 1.0}, "count", "integer"),
    ({"count": "1"}, "count", "integer"),
    ({"count": 2**32}, "count", "out of range"),
    ({"count": None}, "count", "integer"),
    ({"ready": 1}, "ready", "true or false"),
    ({"names": "ab"}, "names", "list"),
    ({"names": ["b", "a"]}, "names", "sorted"),
    ({"names": ["a", 3]}, "names[1]", "text"),
    ({"names": [3] * 4}, "names", "4 items"),
    ({"parts": []}, "parts", "0 items"),
    ({"parts": [{**PART, "root": "AB" * 32}]}, "parts[0].root", "lower-case hex"),
    ({"parts": [{**PART, "root": "abc"}]}, "parts[0].root", "lower-case hex"),
    ({"parts": [{**PART, "root": "ab" * 31}]}, "parts[0].root", "31 bytes"),
    ({"parts": [PART, {**PART, "kind": 3}]}, "parts[1].kind", "one of 1, 2"),
    ({"parts": [PART, {"kind": 1}]}, "parts[1].root", "missing"),
    ({"parts": [[]]}, "parts[0]", "object"),
    ({"numbers": {"x": -1}}, "numbers.x", "out of range"),
    ({"numbers": {"": 1}}, "numbers", "0 bytes"),
    ({"numbers": []}, "numbers", "object"),
    ({"last": {**PART, "more": 1}}, "last.more", "no such field"),
    ({"more" * 50: 1}, ("more" * 50)[:40], "no such field"),
]


@pytest.mark.parametrize(("change", "field", "reason"), REFUSED)
def test_what_does_not_fit_is_named(change: dict[str, Any], field: str, reason: str) -> None:
    with pytest.raises(Refusal, match=reason) as caught:
        plain.read(Whole, {**WHOLE, **change})
    assert caught.value.field == field


def test_the_path_begins_where_the_caller_says() -> None:
    with pytest.raises(Refusal) as caught:
        plain.read(Whole, {**WHOLE, "parts": [0]}, "file")
    assert caught.value.field == "file.parts[0]"


def test_what_has_no_bound_has_no_reader() -> None:
    @dataclass
    class Bare:
        text: str

    @dataclass
    class Sized:
        texts: Annotated[tuple[Annotated[str, Size(0, 9)], ...], Sorted()]

    for cls in (Bare, Sized):
        with pytest.raises(Mismatch):
            plain.read(cls, {})


def test_a_genesis_is_read_within_its_bounds_and_faults_have_a_path() -> None:
    good = codec.to_plain(GenesisAccount("assay1a", (Coin("uassay", 1), Coin("uassay", 2))))
    assert plain.read(GenesisAccount, good).coins[1].amount == 2
    for amount in (-1, "1"):
        bad = {**good, "coins": [good["coins"][0], {"denom": "uassay", "amount": amount}]}
        with pytest.raises(Refusal) as refused:
            plain.read(GenesisAccount, bad)
        assert refused.value.field == "coins[1].amount"
