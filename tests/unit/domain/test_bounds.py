"""A bound beside a field refuses what is just outside it, by the field's whole path, and nothing is without one."""

from dataclasses import dataclass, fields, is_dataclass, replace
from types import ModuleType
from typing import Annotated, Any

import pytest

from domain import genesis, keys, order_params, params
from domain.bounds import (
    Address,
    ChainId,
    Count,
    Denom,
    Duration,
    Hash,
    Length,
    Many,
    MaybeAddress,
    MaybeHash,
    MaybeName,
    MaybePublicKey,
    Mismatch,
    Money,
    Name,
    PublicKey,
    Range,
    Signature,
    Size,
    Sorted,
    Tags,
    Text,
    Visible,
    check,
    checker,
    split,
    without_none,
)
from domain.errors import LIMIT_REACHED, Refusal
from domain.keys import ShareRef
from domain.market.records import Conditions, JobTerms
from tests.support.words import modules

MODULES: list[ModuleType] = [
    keys,
    order_params,
    params,
    genesis,
    *(module for kind in ("records", "messages", "queries") for module in modules(kind)),
]
TYPES = [
    item
    for module in MODULES
    for item in vars(module).values()
    if isinstance(item, type) and is_dataclass(item) and item.__module__ == module.__name__
]


def test_there_are_types_of_every_kind() -> None:
    assert {cls.__module__ for cls in TYPES} == {module.__name__ for module in MODULES}
    assert len(TYPES) > 70


@pytest.mark.parametrize("cls", TYPES, ids=lambda cls: cls.__name__)
def test_every_field_of_every_type_has_a_bound(cls: Any) -> None:
    checker(cls, "value")


def refused(hint: Any, value: Any) -> Refusal:
    test = checker(hint, "field")
    assert test is not None
    with pytest.raises(Refusal) as caught:
        test(value)
    assert caught.value.field.startswith("field")
    assert caught.value.remedy
    return caught.value


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (Hash, [bytes(32)], [b"", bytes(31), bytes(33)]),
        (MaybeHash, [bytes(32), b""], [bytes(1), bytes(31), bytes(33)]),
        (Signature, [bytes(64)], [b"", bytes(63), bytes(65)]),
        (PublicKey, [b"\x02" + bytes(32), b"\x03\n" + bytes(31)], [b"", bytes(33), b"\x02" * 34]),
        (MaybePublicKey, [b"", b"\x03" * 33], [bytes(33), b"\x02"]),
        (Address, ["assay1abc", "v0"], ["", "é", "a\n", "x" * 129]),
        (MaybeAddress, ["", "v0"], ["\t", "x" * 129]),
        (Denom, ["uassay", "ibc/F00"], ["", "u", "1ab", "ua\n", "uassay "]),
        (Name, ["cpu", "größe", "x" * 32], ["", "x" * 33, "ü" * 17, "c\npu", "c\u200bpu"]),
        (MaybeName, ["", "cpu"], ["x" * 33, "\x00"]),
        (Text, ["", "x" * 128], ["x" * 129, "\ud800", "\u202eabc"]),
        (ChainId, ["assay-1"], ["", "x" * 65]),
        (Tags, [(), ("a", "b")], [("b", "a"), ("a", "a"), ("",), tuple("abcdefghijklmnopq")]),
        (Money, [0, 2**63 - 1], [-1, 2**63, True]),
        (Duration, [1, 366 * 86_400], [0, 366 * 86_400 + 1]),
        (Count, [0, 2**32 - 1], [-1, 2**32]),
        (Annotated[tuple[Count, ...], Length(1, 2)], [(1,), (1, 2)], [(), (1, 2, 3), (-1,)]),
        (tuple[Name, Count], [("a", 1)], [("", 1), ("a", -1)]),
    ],
)
def test_values_inside_and_just_outside(hint: Any, good: list[Any], bad: list[Any]) -> None:
    test = checker(hint, "field")
    assert test is not None
    for value in good:
        test(value)
    for value in bad:
        refused(hint, value)


@dataclass(frozen=True)
class Inner:
    """One part."""

    ref: ShareRef


@dataclass(frozen=True)
class Outer:
    """Parts in parts, some of them left out."""

    inner: Inner | None
    items: Annotated[tuple[Inner, ...], Many]
    named: Annotated[tuple[tuple[Name, Count], ...], Length(0, 2, LIMIT_REACHED)]
    hash: Hash | None


def outer(**changes: Any) -> Outer:
    return replace(Outer(None, (), (), None), **changes)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"inner": Inner(ShareRef(1024, 0))}, "inner.ref.slot"),
        ({"items": (Inner(ShareRef(0, 0)), Inner(ShareRef(0, -1)))}, "items[1].ref.issue"),
        ({"named": (("a", 1), ("b", -1))}, "named[1][1]"),
        ({"named": (("a", 1),) * 3}, "named"),
        ({"hash": b"1"}, "hash"),
    ],
)
def test_the_path_of_the_first_field_that_does_not_fit_is_named(changes: dict[str, Any], field: str) -> None:
    check(outer())
    with pytest.raises(Refusal) as caught:
        check(outer(**changes))
    assert caught.value.field == field
    assert (caught.value.code is LIMIT_REACHED) == (field == "named")


@pytest.mark.parametrize(
    "hint",
    [
        int,
        str,
        bytes,
        float,
        dict[str, int],
        tuple[Name, ...],
        Annotated[str, Visible()],
        Annotated[bytes, Range(0, 1)],
        Annotated[int, Size(0, 1)],
        Annotated[tuple[str, ...], Length(0, 1)],
        Annotated[tuple[Name, ...], Sorted()],
        Annotated[str, Length(0, 1)],
    ],
)
def test_what_has_no_bound_or_one_that_means_nothing_has_no_test(hint: Any) -> None:
    with pytest.raises(Mismatch, match="field"):
        checker(hint, "field")


def test_types_are_read_without_their_marks() -> None:
    assert split(Hash) == (bytes, (Size(32, 32),))
    assert split(bool) == (bool, ())
    assert without_none(Hash | None) == (Hash, True)
    assert without_none(int) == (int, False)


def test_texts_name_field_reason_and_remedy() -> None:
    assert str(refused(Hash, b"1")) == "field: has 1 bytes; send exactly 32"
    assert str(refused(Count, -1)) == "field: -1 is out of range; use 0 to 4294967295"
    assert str(refused(Tags, ("b", "a"))) == "field: is unsorted or repeats an item; sort the items and list each once"
    assert str(refused(Address, "")) == "field: is not an address; use an address that starts with assay1"


def test_a_job_and_conditions_are_bounded_by_what_the_limits_say() -> None:
    check(Conditions())
    values: dict[str, Any] = {field.name: 1 for field in fields(JobTerms)}
    roots = ("job_id", "global_root", "local_root", "data_root")
    good = JobTerms(**values | dict.fromkeys(roots, bytes(32)))
    check(good)
    names = ("rounds", "slots", "batch", "step_work", "local_bytes", "executor_version")
    changes: list[dict[str, Any]] = [{name: 0} for name in names]
    for name, change in zip(names, changes, strict=True):
        with pytest.raises(Refusal, match=f"{name}: 0 is out of range; use 1"):
            check(replace(good, **change))
