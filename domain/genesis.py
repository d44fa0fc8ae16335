"""Genesis of the application (``app_state`` in CometBFT's genesis file)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from typing import Annotated, TypeVar

from domain.bounds import (
    Address,
    ChainId,
    ConsensusKey,
    Denom,
    Length,
    Many,
    PositiveMoney,
    PublicKey,
    Range,
    Size,
    Text,
)
from domain.ledger.records import Coin
from domain.limits import CERTIFICATE_BYTES_MAX
from domain.params import Params
from domain.registry.records import Promise
from domain.vocabulary import COMPONENTS

G = TypeVar("G")
T = TypeVar("T")

AUDIT_SPEED = 200_000_000
"""FLOP/s of exact work that any machine reaches which runs several daemons at once."""
AUDIT_RATE = 10_000_000
"""Bytes/s."""
RULES_MAX = 256
"""Entries of the list of rules."""


@dataclass(frozen=True, slots=True)
class GenesisAccount:
    """An address and its coins."""

    address: Address
    coins: Annotated[tuple[Coin, ...], Many]


@dataclass(frozen=True, slots=True)
class GenesisValidator:
    """A validator: its stake is extra to its account's coins; power = stake // POWER_REDUCTION."""

    operator: Address
    moniker: Text
    cons_key: ConsensusKey
    beacon_key: PublicKey  # counts from block 1
    stake: PositiveMoney
    endpoint: Text = ""
    certificate: Annotated[bytes, Size(0, CERTIFICATE_BYTES_MAX)] = b""
    audit_speed: Promise = AUDIT_SPEED
    audit_rate: Promise = AUDIT_RATE


@dataclass(frozen=True, slots=True)
class RulesFrom:
    """The version of the rules that holds from a height on."""

    height: Annotated[int, Range(1, 2**63 - 1)]
    version: Annotated[int, Range(1, 1_000_000)]


@dataclass(frozen=True, slots=True)
class Genesis:
    """Everything the state starts with."""

    chain_id: ChainId
    denom: Denom
    params: Params
    accounts: Annotated[tuple[GenesisAccount, ...], Many]
    validators: Annotated[tuple[GenesisValidator, ...], Many]
    # By height: the first entry is of height 1, and heights and versions only rise.
    rules: Annotated[tuple[RulesFrom, ...], Length(1, RULES_MAX)] = (RulesFrom(1, 1),)


def _extend(base: type[G], parts: Mapping[str, type]) -> type[G]:
    """Return ``base`` with a field for each part, named like its component; ``base`` itself if there is none."""
    if not parts:
        return base
    extended: type[G] = make_dataclass(
        base.__name__,
        [(name, cls, field(kw_only=True)) for name, cls in parts.items()],
        bases=(base,),
        namespace={"__module__": __name__},
        frozen=True,
        slots=True,
    )
    return extended


GENESIS: type[Genesis] = _extend(
    Genesis, {words.name: words.genesis for words in COMPONENTS if words.genesis is not None}
)
"""The genesis with the parts of all components, as files and the state have it."""


def part_of(genesis: Genesis, name: str, cls: type[T]) -> T:
    """Return a component's own part of the genesis."""
    part = getattr(genesis, name, None)
    if not isinstance(part, cls):
        made = f"{type(genesis).__name__} has no part of {name}"
        raise TypeError(f"{made}: make it with the class GENESIS")
    return part


POWER_REDUCTION = 1_000_000
DENOM = "uassay"
LOCAL_PREFIX = "assay-local"
"""Chain ids of local networks begin with it: short windows, and providers that may cheat on purpose."""
