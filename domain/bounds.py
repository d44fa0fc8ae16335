"""Bounds of values, stated as marks in the types of the fields that hold the values.

Examples are ``order_id: Hash``, ``price: PositiveMoney`` or ``leaves: Annotated[tuple[TraceLeaf, ...], Length(2, 2)]``.
The values themselves are plain ``int``, ``str``, ``bytes`` and ``tuple``. The code that takes values from outside reads
the marks: the state machine before it handles a message, the wire (:mod:`wire.convert`), and the strict reader of JSON
(:mod:`domain.plain`). All of them compile the same tests, so each bound is stated once.

If a field of integers, text, bytes or tuples has no bound, compiling its test raises :class:`Mismatch`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, NoReturn, Union, get_args, get_origin, get_type_hints

from domain.amount import BPS, MONEY_MAX, WORK_MAX
from domain.errors import BAD_FIELD, INVALID_ADDRESS, INVALID_COINS, TX_DECODE, Code, Refusal
from domain.hashing import HASH_SIZE
from domain.limits import (
    DURATION_MAX,
    NAME_MAX,
    PROVIDERS_BPS_MAX,
    SHARE_BOND_MAX,
    SHARE_SEGMENTS_MAX,
    SLOTS_MAX,
    TAGS_MAX,
    TEXT_MAX,
)

Test = Callable[[Any], None]
"""A function that raises a Refusal with the name of the field if the value is out of its bounds."""

# Control characters, and characters that make a text look like another one: zero width, line separators and changes of
# direction. The list is explicit because Unicode's categories differ between versions of Python, and all nodes must
# agree.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\uffff"
    "\U000e0000-\U000e007f]"
)


class Mismatch(TypeError):
    """A type that lacks bounds, or that does not fit the data it describes.

    It is raised when a test or reader is compiled.

    It is always a bug.
    """


# --- marks ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Range:
    """An integer from ``low`` to ``high``, both included. A message with another value is refused with ``code``.

    If ``above`` is given, a value above ``high`` is refused with this code, and with its name in words at the end, as
    wallets expect it.
    """

    low: int
    high: int
    code: Code = BAD_FIELD
    above: Code | None = None


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes, or text in UTF-8, with a length of ``low`` to ``high`` bytes.

    With ``blank``, an empty value is also valid.
    """

    low: int
    high: int
    blank: bool = False


@dataclass(frozen=True, slots=True)
class Length:
    """A tuple of ``low`` to ``high`` items. A message with a tuple of another length is refused with ``code``."""

    low: int
    high: int
    code: Code = BAD_FIELD


@dataclass(frozen=True, slots=True)
class Sorted:
    """A tuple of items in ascending order, without repeats."""


@dataclass(frozen=True, slots=True)
class Distinct:
    """A tuple of items in any order, without repeats."""


@dataclass(frozen=True, slots=True)
class Visible:
    """Text without control or invisible characters. With ``lines``, it may have line feeds."""

    lines: bool = False


@dataclass(frozen=True, slots=True)
class Pattern:
    """Text or bytes that ``pattern`` matches in full. Errors call the value ``what``.

    With ``blank``, the value may be empty.
    """

    what: str
    pattern: str | bytes
    remedy: str
    code: Code = BAD_FIELD
    blank: bool = False


Mark = Range | Size | Length | Sorted | Distinct | Visible | Pattern
_BOUNDING = (Range, Size, Length, Pattern)

# --- types of fields -----------------------------------------------------------------------------

Hash = Annotated[bytes, Size(HASH_SIZE, HASH_SIZE)]
MaybeHash = Annotated[bytes, Size(HASH_SIZE, HASH_SIZE, blank=True)]
Signature = Annotated[bytes, Size(64, 64)]
"""A compact signature: r and s."""

_KEY = Pattern("a compressed key", rb"(?s)[\x02\x03].{32}", "send 33 bytes, the first of them 02 or 03")
PublicKey = Annotated[bytes, _KEY]
MaybePublicKey = Annotated[bytes, Pattern(_KEY.what, _KEY.pattern, _KEY.remedy, blank=True)]
ConsensusKey = Annotated[bytes, Size(32, 32)]
ConsensusAddress = Annotated[bytes, Size(20, 20)]

_BECH32 = "use an address that starts with assay1"
# In the core an address is any ASCII text. The wire refuses a text that is not bech32 with the prefix of this chain.
ADDRESS = Pattern(what="an address", pattern=f"[ -~]{{1,{TEXT_MAX}}}", remedy=_BECH32, code=INVALID_ADDRESS)
MAYBE_ADDRESS = Pattern(what=ADDRESS.what, pattern=ADDRESS.pattern, remedy=_BECH32, code=INVALID_ADDRESS, blank=True)
OPERATOR_ADDRESS = Pattern(
    what="the address of a validator's operator",
    pattern=ADDRESS.pattern,
    remedy="use an address that starts with assayvaloper1",
    code=INVALID_ADDRESS,
)
Address = Annotated[str, ADDRESS]
MaybeAddress = Annotated[str, MAYBE_ADDRESS]
OperatorAddress = Annotated[str, OPERATOR_ADDRESS]
"""The account of a validator's operator. On the wire it is the same bytes with the prefix ``assayvaloper``."""

Text = Annotated[str, Visible(), Size(0, TEXT_MAX)]
"""A moniker or an endpoint."""
Name = Annotated[str, Visible(), Size(1, NAME_MAX)]
"""A region, a tier or a device class."""
MaybeName = Annotated[str, Visible(), Size(0, NAME_MAX)]
Tags = Annotated[tuple[Name, ...], Length(0, TAGS_MAX), Sorted()]
Preferences = Annotated[tuple[Name, ...], Length(0, TAGS_MAX), Distinct()]
"""Names in order of preference."""
ChainId = Annotated[str, Visible(), Size(1, 64)]
Denom = Annotated[
    str,
    Pattern(
        what="a denomination",
        pattern=r"[a-zA-Z][a-zA-Z0-9/:._-]{2,127}",
        remedy="use uassay",
        code=INVALID_COINS,
    ),
]

Money = Annotated[int, Range(0, MONEY_MAX)]
"""``uassay``."""
PositiveMoney = Annotated[int, Range(1, MONEY_MAX)]
Work = Annotated[int, Range(0, WORK_MAX)]
"""FLOPs, or FLOP/s."""
PositiveWork = Annotated[int, Range(1, WORK_MAX)]
Bps = Annotated[int, Range(0, BPS)]
"""Basis points."""
Multiple = Annotated[int, Range(1, SHARE_BOND_MAX)]
"""The bond of a share, as a multiple of the price of its work."""
ProvidersBps = Annotated[int, Range(0, PROVIDERS_BPS_MAX)]
"""Basis points for the providers. The bound leaves a part of each round's price for the validator."""
Duration = Annotated[int, Range(1, DURATION_MAX)]
"""Seconds from now."""
ByteCount = Annotated[int, Range(0, 2**63 - 1)]
"""Bytes, or bytes/s."""
Number = Annotated[int, Range(0, 2**64 - 1)]
"""An unsigned integer of eight bytes: a height, a time on the chain clock, or a sequence."""
Count = Annotated[int, Range(0, 2**32 - 1)]
"""An unsigned integer of four bytes: a leg, a round, or an issue."""
Bits = Annotated[int, Range(0, 2**32 - 1)]
"""The bit pattern of an FP32 number."""
Slot = Annotated[int, Range(0, SLOTS_MAX - 1)]
Segment = Annotated[int, Range(0, SHARE_SEGMENTS_MAX)]
"""The number of a segment, or of a boundary: n segments have n + 1 boundaries."""


class Boxed:
    """The base class of values that a field can hold without a class of its own: the value's class gives the bounds.

    A field with this base class, or with a subclass that is no dataclass, is an ``Any`` on the wire.
    """

    __slots__ = ()


ITEMS_MAX = 2**20
"""A limit above the length of every list that the chain keeps or returns."""
Many = Length(0, ITEMS_MAX)

# --- reading annotated types ---------------------------------------------------------------------


def split(hint: Any) -> tuple[Any, tuple[Mark, ...]]:
    """Return the type in ``hint`` without its marks, and the marks as a tuple."""
    if get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        return inner, tuple(mark for mark in marks if isinstance(mark, Mark))
    return hint, ()


def without_none(hint: Any) -> tuple[Any, bool]:
    """Return (X, True) for the type ``X | None``, and (``hint``, False) for any other type."""
    if get_origin(hint) in (UnionType, Union) and NoneType in get_args(hint):
        rest = [arg for arg in get_args(hint) if arg is not NoneType]
        if len(rest) == 1:
            return rest[0], True
    return hint, False


def choices_of(hint: Any) -> tuple[Any, ...]:
    """Return the classes of a type of several, (A, B) for ``A | B``. Empty for any other type.

    On the wire, a field of such a type is an ``Any``. Each of the classes has its type url as the constant ``URL``.
    """
    kinds = get_args(hint) if get_origin(hint) in (UnionType, Union) else ()
    return () if NoneType in kinds else kinds


def item_of(hint: Any) -> Any:
    """Return the item type X of the type ``tuple[X, ...]``, or None for any other type."""
    args = get_args(hint)
    return args[0] if get_origin(hint) is tuple and args[1:] == (Ellipsis,) else None


def is_boxed(hint: Any) -> bool:
    """Return whether a field of this type holds values of any class (:class:`Boxed`)."""
    return isinstance(hint, type) and issubclass(hint, Boxed) and not is_dataclass(hint)


@cache
def hints_of(cls: type) -> tuple[tuple[str, Any], ...]:
    """Return a pair of name and type (with its marks) for each field of a dataclass, in the order of the fields."""
    hints = get_type_hints(cls, include_extras=True)
    return tuple((field.name, hints[field.name]) for field in fields(cls))


def inside(name: str, refusal: Refusal) -> Refusal:
    """Return a copy of ``refusal`` whose field path begins with ``name``, because the refused value is inside that
    field.
    """
    field = refusal.field
    dot = "." if name and field and not field.startswith("[") else ""
    path = f"{name}{dot}{field}"
    return Refusal(refusal.code, path, refusal.reason, refusal.remedy)


# --- testing values ------------------------------------------------------------------------------


def check(value: Any) -> None:
    """Check that a dataclass and everything inside it is within its bounds.

    The Refusal names the first field that is out of its bounds.
    """
    cls: Any = type(value)
    _record_test(cls)(value)


def checker(hint: Any, name: str) -> Test | None:
    """Return the test of a field called ``name`` and of everything inside it.

    Return None if the field has no bounds.
    """
    return _test(hint, name)


def own_checker(hint: Any, name: str) -> Test:
    """Return a test of the field's own marks, but not of the values inside the field. Readers that test these values
    themselves use it.

    Raises Mismatch for an integer, text, bytes or tuple without a bound.
    """
    kind, marks = split(hint)
    if item_of(kind) is not None:
        if not any(isinstance(mark, Length) for mark in marks):
            raise Mismatch(f"{name}: the tuple has no Length")
        kind = tuple
    elif kind not in (int, str, bytes):
        raise Mismatch(f"{name}: a field cannot have the type {kind}")
    elif not any(isinstance(mark, _BOUNDING) for mark in marks):
        raise Mismatch(f"{name}: the {kind.__name__} has no bound")
    tests = [_mark_test(mark, kind, name) for mark in marks]
    if len(tests) == 1:
        return tests[0]

    def test_all(value: Any) -> None:
        for test in tests:
            test(value)

    match marks:
        # Most texts are ASCII. One check is enough for them: each character is one byte, and "printable" means
        # "visible".
        case (Visible(), Size(low=low, high=high)):
            return lambda value: (
                None if low <= len(value) <= high and value.isascii() and value.isprintable() else test_all(value)
            )
    return test_all


@cache
def _record_test(cls: type) -> Test:
    tests = [(name, _test(hint, name)) for name, hint in hints_of(cls)]
    needed = [(attrgetter(name), test) for name, test in tests if test is not None]

    def test_record(record: Any) -> None:
        for get, test in needed:
            test(get(record))

    return test_record


@cache
def _test(hint: Any, name: str) -> Test | None:
    inner, marks = split(hint)
    inner, optional = without_none(inner)
    if optional:
        part = _test(inner, name)
        return part and (lambda value: None if value is None else part(value))
    if get_origin(inner) is tuple:
        return _tuple_test(hint, inner, name)
    if is_boxed(inner):
        return _nested(check, name)
    if choices_of(inner):
        return _nested(check, name)
    if is_dataclass(inner):
        return _nested(_record_test(inner), name)  # type: ignore[arg-type]  # a class, not an instance
    if inner is bool or (isinstance(inner, type) and issubclass(inner, Enum)):
        return None
    return own_checker(Annotated[(inner, *marks)] if marks else inner, name)


def _nested(test: Test, name: str) -> Test:
    def test_inside(value: Any) -> None:
        try:
            test(value)
        except Refusal as refusal:
            raise inside(name, refusal) from None

    return test_inside


def _tuple_test(hint: Any, kind: Any, name: str) -> Test:
    item = item_of(kind)
    if item is None:
        parts = [_test(part, f"[{at}]") for at, part in enumerate(get_args(kind))]

        def test_parts(value: Any) -> None:
            for test, part in zip(parts, value, strict=True):
                if test is not None:
                    test(part)

        return _nested(test_parts, name)
    own = own_checker(hint, name)
    try:
        each = _test(item, "")
    except Mismatch as mismatch:
        raise Mismatch(f"{name}[]{mismatch}") from None

    def test_items(values: Any) -> None:
        own(values)
        if each is not None:
            for at, value in enumerate(values):
                try:
                    each(value)
                except Refusal as refusal:
                    raise inside(f"{name}[{at}]", refusal) from None

    return test_items


def _mark_test(mark: Mark, kind: type, name: str) -> Test:
    match mark:
        case Range() if kind is int:
            return _range_test(mark, name)
        case Size() if kind in (str, bytes):
            return _size_test(mark, kind, name)
        case Length() if kind is tuple:
            return _length_test(mark, name)
        case Sorted() if kind is tuple:
            return _sorted_test(name)
        case Distinct() if kind is tuple:
            return _distinct_test(name)
        case Visible() if kind is str:
            return _visible_test(mark, name)
        case Pattern(pattern=pattern) if kind is type(pattern):
            return _form_test(mark, name)
    raise Mismatch(f"{name}: the bound {mark} cannot be used for the type {kind.__name__}")


def too_much(code: Code, name: str, value: int, high: int) -> Refusal:
    """Return the refusal of a value that is larger than any amount can be."""
    reason = f"{value} is more than can exist: {code.name.replace('_', ' ')}"
    return Refusal(code, name, reason, f"use at most {high}")


def _range_test(mark: Range, name: str) -> Test:
    low, high, code, above = mark.low, mark.high, mark.code, mark.above

    def test(value: int) -> None:
        if above is not None and value > high:
            raise too_much(above, name, value, high)
        if not low <= value <= high or type(value) is bool:
            reason = f"{value} is out of range"
            raise Refusal(code, name, reason, f"use {low} to {high}")

    return test


def _size_test(mark: Size, kind: type, name: str) -> Test:
    low, high, blank = mark.low, mark.high, mark.blank
    remedy = f"send exactly {high}" if low == high else f"send {low} to {high}"

    def refuse(size: int) -> NoReturn:
        raise Refusal(BAD_FIELD, name, f"has {size} bytes", remedy)

    def test_bytes(value: bytes) -> None:
        if not low <= len(value) <= high and (value or not blank):
            refuse(len(value))

    def test_text(value: str) -> None:
        size = len(value.encode(errors="surrogatepass"))
        if not low <= size <= high and (size or not blank):
            refuse(size)

    return test_bytes if kind is bytes else test_text


def _length_test(mark: Length, name: str) -> Test:
    low, high, code = mark.low, mark.high, mark.code
    wanted = f"exactly {high}" if low == high else f"{low} to {high}"

    def test(values: tuple[Any, ...]) -> None:
        if not low <= len(values) <= high:
            raise Refusal(code, name, f"has {len(values)} items", f"send {wanted}")

    return test


def _sorted_test(name: str) -> Test:
    def test(values: tuple[Any, ...]) -> None:
        if list(values) != sorted(set(values)):
            raise Refusal(BAD_FIELD, name, "is unsorted or repeats an item", "sort the items and list each once")

    return test


def _distinct_test(name: str) -> Test:
    def test(values: tuple[Any, ...]) -> None:
        if len(values) != len(set(values)):
            raise Refusal(BAD_FIELD, name, "lists an item twice", "list each item once")

    return test


def _visible_test(mark: Visible, name: str) -> Test:
    def test(value: str) -> None:
        if mark.lines:
            value = value.replace("\n", "")
        if not (value.isascii() and value.isprintable()) and _HIDDEN.search(value):
            raise Refusal(TX_DECODE, name, "has control or invisible characters", "remove them")

    return test


def _form_test(mark: Pattern, name: str) -> Test:
    fits: Callable[[Any], Any] = re.compile(mark.pattern).fullmatch
    blank = mark.blank

    def test(value: Any) -> None:
        if fits(value) is None and (value or not blank):
            raise Refusal(mark.code, name, f"is not {mark.what}", mark.remedy)

    return test
