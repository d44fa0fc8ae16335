"""The application's part of the genesis (``app_state`` in CometBFT's genesis file)."""

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
"""Promised speed of exact work (FLOP/s) that is low enough for a machine on which several daemons run."""
AUDIT_RATE = 10_000_000
"""Promised download rate (bytes/s) that is low enough for a machine on which several daemons run."""
RULES_MAX = 256
"""Largest number of entries in the list of rules."""


@dataclass(frozen=True, slots=True)
class GenesisAccount:
    """An address and its coins."""

    address: Address
    coins: Annotated[tuple[Coin, ...], Many]


@dataclass(frozen=True, slots=True)
class GenesisValidator:
    """A validator of the genesis.

    Its stake is in addition to its account's coins. Its power in the consensus is stake // POWER_REDUCTION.
    """

    operator: Address
    moniker: Text
    cons_key: ConsensusKey
    beacon_key: PublicKey  # the beacon key, valid from block 1
    stake: PositiveMoney
    endpoint: Text = ""
    certificate: Annotated[bytes, Size(0, CERTIFICATE_BYTES_MAX)] = b""
    audit_speed: Promise = AUDIT_SPEED
    audit_rate: Promise = AUDIT_RATE


@dataclass(frozen=True, slots=True)
class RulesFrom:
    """A version of the rules, and the height from which it is in force."""

    height: Annotated[int, Range(1, 2**63 - 1)]
    version: Annotated[int, Range(1, 1_000_000)]


@dataclass(frozen=True, slots=True)
class Genesis:
    """The initial content of the state."""

    chain_id: ChainId
    denom: Denom
    params: Params
    accounts: Annotated[tuple[GenesisAccount, ...], Many]
    validators: Annotated[tuple[GenesisValidator, ...], Many]
    # Sorted by height: the first entry has height 1, and both heights and versions ascend.
    rules: Annotated[tuple[RulesFrom, ...], Length(1, RULES_MAX)] = (RulesFrom(1, 1),)


def _extend(base: type[G], parts: Mapping[str, type]) -> type[G]:
    """Return a subclass of ``base`` with one field per part, named like the part's component.

    If there are no parts, return ``base`` itself.
    """
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
"""The genesis class with the parts of all components, in the form of files and the state."""


def part_of(genesis: Genesis, name: str, cls: type[T]) -> T:
    """Return a component's own part of the genesis. TypeError if the genesis has no such part."""
    part = getattr(genesis, name, None)
    if not isinstance(part, cls):
        reason = f"{type(genesis).__name__} has no part of {name}"
        raise TypeError(f"{reason}: make it with the class GENESIS")
    return part


POWER_REDUCTION = 1_000_000
DENOM = "uassay"
LOCAL_PREFIX = "assay-local"
"""Prefix of the chain ids of local networks, which have short windows and allow providers that cheat on purpose."""
