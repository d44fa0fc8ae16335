"""Every record that is written is the record that is read, and nothing else is read."""

import json
from dataclasses import dataclass, fields, is_dataclass
from enum import IntEnum
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain import codec, events, genesis, keys, order_params, params
from domain.ledger.records import Coin, Withdrawal
from domain.market.records import Bid, Offer
from domain.proof.records import AuditKind, AuditPlace
from domain.registry.records import Capability, Provider
from tests.support.bounded import values
from tests.support.words import modules


def declared(module: ModuleType) -> list[type]:
    """Return the dataclasses that the module itself declares."""
    return [
        item
        for item in vars(module).values()
        if isinstance(item, type) and is_dataclass(item) and item.__module__ == module.__name__
    ]


SLOW = [HealthCheck.too_slow]  # records of records; the machine may be busy

RECORDS = [item for module in modules("records") for item in declared(module)]
WORDS = [module for kind in ("records", "messages", "queries", "events") for module in modules(kind)]
TYPES = [
    item
    for module in (keys, order_params, params, genesis, events, *WORDS)
    for item in declared(module)
    if not getattr(item, "INNER", "")  # messages with messages inside are never stored
]


def test_there_are_records() -> None:
    assert len(RECORDS) > 20
    assert len(TYPES) > 120


@pytest.mark.parametrize("cls", TYPES, ids=lambda cls: f"{cls.__module__}.{cls.__name__}")
@settings(max_examples=20, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_round_trip_of_every_type(cls: type, data: st.DataObject) -> None:
    record: Any = data.draw(values(cls))
    encoded = codec.encode(record)
    assert codec.decode(cls, encoded) == record
    assert codec.from_plain(cls, codec.to_plain(record)) == record
    assert codec.encode(codec.decode(cls, encoded)) == encoded
    canonical = json.dumps(json.loads(encoded), sort_keys=True, separators=(",", ":"))
    assert encoded == canonical.encode()


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
@settings(max_examples=10, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_different_records_have_different_bytes(cls: type, data: st.DataObject) -> None:
    one: Any = data.draw(values(cls))
    two: Any = data.draw(values(cls))
    assert (codec.encode(one) == codec.encode(two)) == (one == two)


def test_enums_come_back_as_enums() -> None:
    place = AuditPlace(AuditKind.UPDATE, 1, 2, 3)
    assert codec.to_plain(place) == {"kind": 2, "slot": 1, "issue": 2, "segment": 3, "chunk": 0}
    assert isinstance(codec.decode(AuditPlace, codec.encode(place)).kind, AuditKind)


def test_bytes_are_hex_tuples_lists_and_nothing_is_null() -> None:
    provider = Provider("p", "v", b"\x00\xff", None, 1, 2)
    assert codec.to_plain(provider) == {
        "address": "p",
        "validator": "v",
        "pub_key": "00ff",
        "capability": None,
        "shares_accepted": 1,
        "shares_rejected": 2,
        "admitted": False,
        "has_verified_share": False,
    }
    capable = Provider("p", "v", b"", Capability("cpu", 1, 2, 3, 4), 0, 0)
    assert codec.decode(Provider, codec.encode(capable)) == capable


def test_the_bytes_are_spelled_out() -> None:
    coin = Coin("uassay", 2**127)
    assert codec.encode(coin) == b'{"amount":170141183460469231731687303715884105728,"denom":"uassay"}'
    assert codec.encode(-7) == b"-7"
    assert codec.encode("é") == b'"\\u00e9"'
    assert codec.encode((1, b"\x01")) == b'[1,"01"]'


GOOD = {"amount": 5, "denom": "uassay"}


@pytest.mark.parametrize(
    "plain",
    [
        {"amount": 5},
        {"denom": "uassay"},
        {**GOOD, "extra": 1},
        {**GOOD, "amount": "5"},
        {**GOOD, "amount": 5.0},
        {**GOOD, "amount": True},
        {**GOOD, "amount": None},
        {**GOOD, "denom": 5},
        {**GOOD, "denom": None},
        [5, "uassay"],
        None,
        "uassay",
    ],
)
def test_what_does_not_fit_is_refused(plain: Any) -> None:
    assert codec.from_plain(Coin, GOOD) == Coin("uassay", 5)
    with pytest.raises(ValueError, match=r"expected|unknown or missing"):
        codec.from_plain(Coin, plain)


def test_values_inside_are_checked_too() -> None:
    with pytest.raises(ValueError, match="not a valid AuditKind"):
        codec.from_plain(AuditPlace, {"kind": 9, "slot": 0, "issue": 0, "segment": 0, "chunk": 0})
    with pytest.raises(ValueError, match="expected int, got bool"):
        codec.from_plain(AuditPlace, {"kind": True, "slot": 0, "issue": 0, "segment": 0, "chunk": 0})
    bid = codec.to_plain(Bid(b"", "v", Offer(1, 1), 1, 0, 0))
    with pytest.raises(ValueError, match="expected list"):
        codec.from_plain(Bid, {**bid, "offer": {**bid["offer"], "regions": "eu"}})
    with pytest.raises(ValueError, match="expected str"):
        codec.from_plain(Bid, {**bid, "offer": {**bid["offer"], "regions": [1]}})
    with pytest.raises(ValueError, match="hexadecimal"):
        codec.from_plain(Bid, {**bid, "id": "zz"})


@dataclass(frozen=True)
class Pair:
    """A tuple of fixed length."""

    value: tuple[str, int]


@dataclass(frozen=True)
class Loose:
    """A type that has no canonical form."""

    value: float


def test_tuples_of_fixed_length_keep_it() -> None:
    assert codec.decode(Pair, codec.encode(Pair(("a", 1)))) == Pair(("a", 1))
    for wrong in (["a"], ["a", 1, 2]):
        with pytest.raises(ValueError, match=r"zip\(\)|expected"):
            codec.from_plain(Pair, {"value": wrong})


@pytest.mark.parametrize("value", [1.5, [1], {"a": 1}, {1}, object()])
def test_a_value_without_a_canonical_form_is_a_bug(value: Any) -> None:
    with pytest.raises(TypeError, match="no canonical form"):
        codec.encode(value)


def test_a_hint_without_a_canonical_form_is_a_bug() -> None:
    with pytest.raises(TypeError, match="no canonical form"):
        codec.from_plain(Loose, {"value": 1})


def test_every_enum_of_the_records_has_no_zero() -> None:
    """Protobuf's zero is "unspecified": no state of a record may look like a field left out."""
    enums = [
        item
        for module in modules("records")
        for item in vars(module).values()
        if isinstance(item, type) and issubclass(item, IntEnum) and item is not IntEnum
    ]
    assert len(enums) >= 5
    assert all(member != 0 for enum in enums for member in enum)


def test_records_are_frozen_and_without_a_dict() -> None:
    withdrawal = Withdrawal(1, 2)
    with pytest.raises(AttributeError):
        withdrawal.amount = 3  # type: ignore[misc]
    for cls in TYPES:
        assert fields(cls) is not None
        assert "__slots__" in vars(cls), cls
        assert cls.__dataclass_params__.frozen, cls  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Left:
    a: int
    b: str


@dataclass(frozen=True)
class Known:
    one: Left


@dataclass(frozen=True)
class Unknown:
    one: codec.Packed


def test_a_packed_record_has_the_bytes_of_the_record_itself() -> None:
    left = Left(1, "é")
    packed = Unknown(codec.pack(left))
    assert codec.encode(packed) == codec.encode(Known(left))
    read = codec.decode(Unknown, codec.encode(packed))
    assert read == packed
    assert read.one.unpack(Left) == left
    with pytest.raises(ValueError, match="Known: unknown or missing fields"):
        read.one.unpack(Known)
