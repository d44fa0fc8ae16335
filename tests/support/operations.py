"""Random messages of every kind, most of which could be right: their values come from the records of a state.

A message is filled field by field from the bounds in its annotations. If a record of the state has fields of the same
names (a delegation has a delegator and a validator), a message usually takes all of them from one record. So messages
of a new component are sent without a change here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from random import Random
from typing import Any, get_args

from chain.state_machine.rules import RULES
from chain.state_machine.store import Overlay
from chain.state_machine.tables import Table
from domain.attest.evidence import TECHNOLOGIES
from domain.authz.messages import MsgExec
from domain.authz.records import AuthorizationGrant
from domain.bounds import (
    ADDRESS,
    MAYBE_ADDRESS,
    OPERATOR_ADDRESS,
    Distinct,
    Length,
    Pattern,
    Range,
    Size,
    Sorted,
    choices_of,
    hints_of,
    is_boxed,
    item_of,
    split,
    without_none,
)
from domain.genesis import DENOM
from domain.gov.messages import MsgSubmitProposal, MsgUpdateParams, ParamChange
from domain.gov.moves import GOV_POT
from domain.ledger.records import Coin
from domain.messages import Message, signer_of
from domain.params import RECORDS
from domain.slashing.messages import MsgUnjail
from domain.staking.messages import MsgCreateValidator
from domain.staking.records import ONE, CommissionRates, ValidatorStake
from domain.times import NS, TimeSpan, Timestamp
from domain.vocabulary import MESSAGES

KEPT = 100
"""Values of one name, and records of one kind, that are remembered of a state."""
TABLES = tuple(table for part in RULES.components for table in part.tables if isinstance(table, Table))
OF_GOVERNANCE = tuple(cls for cls in MESSAGES if cls.SIGNER == "authority")
URLS = tuple(cls.URL for cls in MESSAGES)
_URL_FIELDS = frozenset(("msg", "msg_type_url", "url", "allowed_messages"))
_NAMED = {
    "addr": "validator",
    "creation_height": "height",
    "dst": "target",
    "msg_type_url": "url",
    "src": "source",
    "voter": "delegator",
}
"""The names that fields of messages have in records, where they differ."""


def plain_name(name: str) -> str:
    """Return the name by which a message's field is compared with fields of records."""
    name = name.removesuffix("_address").removeprefix("validator_")
    return _NAMED.get(name, name)


@cache
def _named_fields(cls: Any) -> Mapping[str, str]:
    """Return the fields of a record by the names that messages have for them: the ``id`` of an order is an order_id."""
    named = {plain_name(field.name): field.name for field in fields(cls)}
    if "id" in named:
        named[f"{cls.__name__.lower()}_id"] = named["id"]
    if "operator" in named:
        named.setdefault("validator", named["operator"])
    if cls.__name__ in ("Leg", "Round"):
        named[cls.__name__.lower()] = "number" if cls.__name__ == "Leg" else "round"
    return named


@cache
def _shared(message: Any, record: Any) -> tuple[tuple[str, str], ...]:
    """Return pairs of fields that mean the same in a message and in a record."""
    named = _named_fields(record)
    pairs = ((field.name, plain_name(field.name)) for field in fields(message))
    return tuple((name, named[plain]) for name, plain in pairs if plain in named)


class Operations:
    """Makes messages from dice and from what it last saw of a state. ``people`` can sign."""

    def __init__(self, random: Random, people: Sequence[str], keys: Sequence[bytes]) -> None:
        """Set who sends; ``keys`` are compressed public keys that messages may name."""
        self.random = random
        self.people = tuple(people)
        self.keys = tuple(keys)
        self.now_ns = 0
        self.values: dict[str, list[Any]] = {}
        self.records: dict[type, list[Any]] = {}

    # --- the state ---

    def look(self, store: Overlay, now_ns: int) -> None:
        """Remember records of a state, and the values of their fields by name."""
        self.now_ns = now_ns
        self.values, self.records = {}, {}
        for table in TABLES:
            found = list(table.iterate(store))
            if not found or not is_dataclass(found[0]):
                continue
            chosen = self.random.sample(found, min(len(found), KEPT))
            self.records[type(found[0])] = chosen
            for record in chosen:
                self._note(record)

    def _note(self, record: Any) -> None:
        kind: Any = type(record)
        for name, field in _named_fields(kind).items():
            value = getattr(record, field)
            if is_dataclass(value) and not isinstance(value, type):
                self._note(value)
            elif isinstance(value, int | bytes | str):
                seen = self.values.setdefault(name, [])
                if len(seen) < KEPT:
                    seen.append(value)

    # --- messages ---

    def message(self) -> Message:
        """Return a message that one of the people signs."""
        found = self.of(self.random.choice(MESSAGES))
        if signer_of(found) in self.people:
            return found
        changed: Any = found
        return replace(changed, **{found.SIGNER: self.random.choice(self.people)})  # type: ignore[no-any-return]

    def of(self, cls: type[Message], depth: int = 0) -> Message:
        """Return a message of a class, whose signer may be anybody."""
        made: Any = cls
        values: dict[str, Any] = {}
        if cls is MsgExec and depth < 2:
            return self._exec(depth)
        if cls is MsgUpdateParams and self._chance(0.9):
            return MsgUpdateParams(GOV_POT.address, tuple(self._change() for _ in range(self.random.choice((1, 1, 2)))))
        if self._chance(0.8):
            values |= self._of_a_record(cls)
        for name, hint in hints_of(made):
            if name not in values:
                values[name] = self._fill(hint, name, depth)
        if cls is MsgSubmitProposal and self._chance(0.9):
            count = self.random.choice((0, 1, 1, 2))
            inner = tuple(self.of(self.random.choice(OF_GOVERNANCE), depth + 1) for _ in range(count))
            values |= {"messages": inner, "expedited": False, "initial_deposit": (Coin(DENOM, 10**7),)}
        if cls is MsgCreateValidator and self._chance(0.8):
            commission = CommissionRates(rate=ONE // 10, max_rate=ONE // 5, max_change_rate=ONE // 100)
            values |= {"delegator_address": "", "commission": commission, "min_self_delegation": 1}
            values["validator_address"] = self.random.choice(self.people)
        if "options" in values and self._chance(0.8):
            values["options"] = values["options"][:1]
            values["options"] = tuple(replace(option, weight=_whole(option.weight)) for option in values["options"])
        return made(**values)  # type: ignore[no-any-return]

    def _of_a_record(self, cls: type[Message]) -> dict[str, Any]:
        """Return the fields that a message has in common with a record, which is one that shares most with it."""
        made: Any = cls
        kinds = [(len(_shared(made, kind)), at) for at, kind in enumerate(self.records)]
        most = max((count for count, _ in kinds), default=0)
        near = [at for count, at in kinds if count and count >= most - self.random.choice((0, 0, 1))]
        if not near:
            return {}
        kind: Any = list(self.records)[self.random.choice(near)]
        record = self.random.choice(self.records[kind])
        jailed = [stake for stake in self.records.get(ValidatorStake, []) if stake.jailed]
        if cls is MsgUnjail and jailed:
            kind, record = ValidatorStake, self.random.choice(jailed)
        return {name: getattr(record, field) for name, field in _shared(made, kind) if _fits(cls, name, record, field)}

    def _exec(self, depth: int) -> Message:
        """Return a message that uses an authorization of another person, or pretends to."""
        grants: list[AuthorizationGrant] = self.records.get(AuthorizationGrant, [])
        by_url = {cls.URL: cls for cls in MESSAGES}
        if not grants or self._chance(0.2):
            inner = self.of(self.random.choice(MESSAGES), depth + 1)
            return MsgExec(self.random.choice(self.people), (inner,))
        grant = self.random.choice(grants)
        cls = by_url.get(grant.url, self.random.choice(MESSAGES))
        inner = self.of(cls, depth + 1)
        changed: Any = inner
        return MsgExec(grant.grantee, (replace(changed, **{cls.SIGNER: grant.granter}),))

    def _change(self) -> ParamChange:
        component = self.random.choice(sorted(RECORDS))
        params: Any = RECORDS[component]
        name, hint = self.random.choice(hints_of(params))
        kind, marks = split(hint)
        ranges = [mark for mark in marks if isinstance(mark, Range)]
        if kind is bool or not ranges:
            return ParamChange(component, name, self.random.randrange(2))
        return ParamChange(component, name, max(0, self._number(ranges[0].low, ranges[0].high, name)))

    # --- fields ---

    def _chance(self, odds: float) -> bool:
        return self.random.random() < odds

    def _fill(self, hint: Any, name: str, depth: int) -> Any:
        kind, marks = split(hint)
        kind, optional = without_none(kind)
        if optional:
            return None if self._chance(0.5) else self._fill(kind, name, depth)
        if is_boxed(kind):
            return self.of(self.random.choice(MESSAGES), depth + 2)
        if choices_of(kind):
            return self._fill(self.random.choice(choices_of(kind)), name, depth)
        if kind is Coin:
            return Coin(DENOM if self._chance(0.98) else "uatom", self._amount())
        if kind is Timestamp:
            return Timestamp(self.now_ns // NS + self.random.choice((-1, 0, 5, 60, 10**6)))
        if kind is TimeSpan:
            return TimeSpan(self.random.choice((0, 1, 30, 10**6)))
        if is_dataclass(kind):
            made: Any = kind
            return made(**{field: self._fill(part, field, depth) for field, part in hints_of(made)})
        if isinstance(kind, type) and issubclass(kind, Enum):
            return self.random.choice(list(kind))
        if kind is bool:
            return self._chance(0.5)
        item = item_of(kind)
        if item is not None:
            return self._tuple(item, marks, name, depth)
        if get_args(kind):
            return tuple(self._fill(part, name, depth) for part in get_args(kind))
        return self._leaf(kind, marks, name)

    def _tuple(self, item: Any, marks: tuple[Any, ...], name: str, depth: int) -> tuple[Any, ...]:
        (length,) = [mark for mark in marks if isinstance(mark, Length)]
        count = self.random.randint(length.low, min(length.high, max(length.low, 2)))
        items = [self._fill(item, name, depth) for _ in range(count)]
        if any(isinstance(mark, Sorted | Distinct) for mark in marks):
            return tuple(sorted(dict.fromkeys(items)))
        return tuple(items)

    def _leaf(self, kind: Any, marks: tuple[Any, ...], name: str) -> Any:
        for mark in marks:
            match mark:
                case Range(low=low, high=high):
                    return self._number(low, high, name)
                case Pattern():
                    return self._formed(mark, name)
        (size,) = [mark for mark in marks if isinstance(mark, Size)]
        seen = [value for value in self._seen(name) if isinstance(value, kind)]
        fitting = [value for value in seen if size.low <= len(value) <= size.high]
        if fitting and self._chance(0.7):
            return self.random.choice(fitting)
        if kind is str:
            if name in _URL_FIELDS:
                return self.random.choice(URLS)
            return "a" * self.random.randint(size.low, min(size.high, size.low + 3))
        return self.random.randbytes(self.random.randint(size.low, min(size.high, size.low + 3)))

    def _formed(self, mark: Pattern, name: str) -> Any:
        if mark in (ADDRESS, MAYBE_ADDRESS, OPERATOR_ADDRESS):
            return self._address(mark, name)
        match mark.what:
            case "a compressed key":
                return self.random.choice(self.keys)
            case "a denomination":
                return DENOM
            case "the type of an Ed25519 key":
                return "/cosmos.crypto.ed25519.PubKey"
            case "an Ed25519 key":
                return b"\x0a\x20" + self.random.randbytes(32)
            case "a weight":
                return self.random.choice(("0.5", "1", "0.25"))
            case "a technology":
                return self.random.choice(TECHNOLOGIES)
            case "a name of a policy" | "a name" | "a version":
                seen = [value for value in self._seen(name) if isinstance(value, str)]
                return self.random.choice(seen) if seen and self._chance(0.7) else str(self.random.randrange(9))
            case "a status of Intel":
                return "UpToDate"
            case "a hash":
                return self.random.choice(("sha256", "sha1"))
        raise AssertionError(f"no value for {mark.what}")

    def _address(self, mark: Pattern, name: str) -> str:
        if name == "authority" and self._chance(0.9):
            return GOV_POT.address
        operators = [value for value in self._seen("operator") if isinstance(value, str)]
        if mark is OPERATOR_ADDRESS and operators and self._chance(0.9):
            return self.random.choice(operators)
        seen = [value for value in self._seen(name) if isinstance(value, str) and value]
        if seen and self._chance(0.3):
            return self.random.choice(seen)
        return self.random.choice(self.people) if self._chance(0.98) else GOV_POT.address

    def _number(self, low: int, high: int, name: str) -> int:
        seen = [value for value in self._seen(name) if type(value) is int and low <= value <= high]
        dice = self.random.random()
        if seen and dice < 0.5:
            return self.random.choice(seen)
        if dice < 0.6:
            return self.random.choice((low, high, min(high, low + 1), max(low, high - 1)))
        return min(high, max(low, low + int(2 ** self.random.uniform(0, max(1, (high - low).bit_length())))))

    def _amount(self) -> int:
        more = self.random.randrange(1, 10 ** self.random.randint(1, 10))
        return self.random.choice((0, 1, more, more, 10**6, 10**6 + more, 10**10))

    def _seen(self, name: str) -> list[Any]:
        return self.values.get(plain_name(name), [])


def _fits(cls: type[Message], name: str, record: Any, field: str) -> bool:
    """Return whether a value of a record may stand in a field: both have one type."""
    made: Any = cls
    kind, _ = without_none(split(dict(hints_of(made))[name])[0])
    value = getattr(record, field)
    return isinstance(kind, type) and type(value) is kind


def _whole(weight: Any) -> Any:
    return "1" if isinstance(weight, str) else 10**18
