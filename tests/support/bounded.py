"""Values of annotated types for tests, made from the bounds beside the fields: inside, at the edges, just outside."""

from collections.abc import Iterator
from dataclasses import is_dataclass, replace
from enum import Enum
from functools import cache
from typing import Any, get_args

from hypothesis import strategies as st

from domain.bounds import (
    ADDRESS,
    MAYBE_ADDRESS,
    OPERATOR_ADDRESS,
    Distinct,
    Length,
    Many,
    Pattern,
    Range,
    Size,
    Sorted,
    Visible,
    choices_of,
    hints_of,
    is_boxed,
    item_of,
    split,
    without_none,
)
from domain.ledger.messages import MsgSend
from wire.address import to_bech32

ADDRESSES = st.binary(min_size=20, max_size=20).map(to_bech32)
SOMEBODY = to_bech32(bytes(range(20)))
_LETTERS = st.characters(codec="utf-8", categories=("L", "N", "P", "S"), exclude_characters="\ufffc\ufffd")
# Texts of other forms, each with some examples.
_FORMS: dict[str, list[Any]] = {
    "a denomination": ["uassay", "ibc/27-Z", "x" * 128],
    "the type of an Ed25519 key": ["/cosmos.crypto.ed25519.PubKey"],
    "a weight": ["0.5", "1"],
    "a technology": ["tpm", "sev-snp"],
    "a status of Intel": ["UpToDate", "OutOfDate"],
    "a hash": ["sha256", "sha1"],
    "an Ed25519 key": [b"\x0a\x20" + bytes(32), b"\x0a\x20" + b"\n" * 32],
    "a compressed key": [b"\x02" + bytes(32), b"\x03" + b"\n" * 32],
}
_TUPLE_MAX = 3


# --- any value within its bounds -----------------------------------------------------------------


@cache
def values(hint: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for all values of a type within its bounds, edges included; tuples stay short."""
    kind, marks = split(hint)
    kind, optional = without_none(kind)
    if optional:
        return st.none() | values(kind)
    if is_boxed(kind):
        return values(MsgSend)
    if choices_of(kind):
        return st.one_of(*map(values, choices_of(kind)))
    if is_dataclass(kind):
        made: Any = kind
        return st.builds(made, **{name: values(part) for name, part in hints_of(made)})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(kind)
    if kind is bool:
        return st.booleans()
    item = item_of(kind)
    if item is not None:
        return _tuples(values(item), marks)
    if get_args(kind):
        return st.tuples(*map(values, get_args(kind)))
    return _leaves(kind, marks)


def _tuples(items: st.SearchStrategy[Any], marks: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    # What nobody reads from outside has no bounds.
    length = next((mark for mark in marks if isinstance(mark, Length)), Many)
    most = min(length.high, max(length.low, _TUPLE_MAX))
    ascending = any(isinstance(mark, Sorted) for mark in marks)
    unique = ascending or any(isinstance(mark, Distinct) for mark in marks)
    made = st.lists(items, min_size=length.low, max_size=most, unique=unique)
    return made.map(lambda parts: tuple(sorted(parts) if ascending else parts))


def _leaves(kind: Any, marks: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    for mark in marks:
        match mark:
            case Range(low=low, high=high):
                return st.sampled_from([low, high]) | st.integers(low, high)
            case Pattern():
                blank = st.just(kind()) if mark.blank else st.nothing()
                return blank | _formed(mark)
    if not marks:
        return st.from_type(kind)
    (size,) = [mark for mark in marks if isinstance(mark, Size)]
    blank = st.just(kind()) if size.blank else st.nothing()
    most = min(size.high, max(size.low, 40))
    if kind is bytes:
        return blank | st.binary(min_size=size.low, max_size=most)
    return blank | st.text(_LETTERS, min_size=size.low, max_size=most).filter(
        lambda text: size.low <= len(text.encode()) <= size.high
    )


def _formed(form: Pattern) -> st.SearchStrategy[Any]:
    if form in (ADDRESS, MAYBE_ADDRESS, OPERATOR_ADDRESS):
        return ADDRESSES
    if form.what in _FORMS:
        return st.sampled_from(_FORMS[form.what])
    return st.from_regex(form.pattern, fullmatch=True)


# --- one value, and what is just outside ---------------------------------------------------------


@cache
def sample(hint: Any) -> Any:
    """Return one value within its bounds, the same every time, in which every part is there."""
    kind, marks = split(hint)
    kind, optional = without_none(kind)
    if optional:
        return sample(kind)
    if is_boxed(kind):
        return sample(MsgSend)
    if choices_of(kind):
        return sample(choices_of(kind)[-1])
    if is_dataclass(kind):
        made: Any = kind
        return made(**{name: sample(part) for name, part in hints_of(made)})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return next(iter(kind))
    item = item_of(kind)
    if item is not None:
        (length,) = [mark for mark in marks if isinstance(mark, Length)]
        return (sample(item),) * max(length.low, min(1, length.high))
    if get_args(kind):
        return tuple(map(sample, get_args(kind)))
    return True if kind is bool else _sample_leaf(kind, marks)


def _sample_leaf(kind: Any, marks: tuple[Any, ...]) -> Any:
    for mark in marks:
        match mark:
            case Range(low=low, high=high):
                # Protobuf leaves out what is 0.
                return max(low, min(1, high))
            case Pattern():
                if mark in (ADDRESS, MAYBE_ADDRESS, OPERATOR_ADDRESS):
                    return SOMEBODY
                return _FORMS[mark.what][0] if mark.what in _FORMS else "a"
    (size,) = [mark for mark in marks if isinstance(mark, Size)]
    one: Any = "a" if kind is str else b"a"
    return one * max(size.low, min(1, size.high))


def bends(hint: Any, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield copies of ``value`` with one thing just outside its bounds, each with the path of what it is."""
    kind, marks = split(hint)
    kind, optional = without_none(kind)
    if optional:
        yield from bends(kind, value)
        return
    if is_boxed(kind) or choices_of(kind):
        yield from bends(type(value), value)
        return
    if is_dataclass(kind):
        made: Any = kind
        for name, part in hints_of(made):
            for path, changed in bends(part, getattr(value, name)):
                dot = "." if path and not path.startswith("[") else ""
                yield f"{name}{dot}{path}", replace(value, **{name: changed})
        return
    item = item_of(kind)
    parts = get_args(kind) if item is None else (item,) * len(value[:1])
    for at, part in enumerate(parts):
        for path, changed in bends(part, value[at]):
            dot = "." if path and not path.startswith("[") else ""
            yield f"[{at}]{dot}{path}", (*value[:at], changed, *value[at + 1 :])
    for mark in marks:
        yield from (("", bad) for bad in _outside(kind, mark, value))


def _outside(kind: Any, mark: Any, value: Any) -> Iterator[Any]:
    match mark:
        case Range(low=low, high=high):
            yield from (low - 1, high + 1)
        case Size(low=low, high=high, blank=blank):
            one: Any = "a" if kind is str else b"a"
            yield one * (high + 1)
            if low > 1 or (low == 1 and not blank):
                yield one * (low - 1)
        case Length(low=low, high=high):
            if mark != Many:
                yield value[:1] * (high + 1)
            if low:
                yield value[: low - 1]
        case Sorted() | Distinct():
            yield value[:1] * 2
        case Visible(lines=lines):
            yield value + ("\r" if lines else "\n")
        case Pattern(blank=blank):
            yield value + ("\n" if isinstance(value, str) else b"\n")
            if not blank:
                yield type(value)()
