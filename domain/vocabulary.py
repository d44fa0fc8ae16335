"""The vocabularies of all components. Every table of messages, events and queries is built from them."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from domain.attest.words import WORDS as ATTEST
from domain.authz.words import WORDS as AUTHZ
from domain.disputes.words import WORDS as DISPUTES
from domain.distribution.words import WORDS as DISTRIBUTION
from domain.events import Attributed, C, Change, read_change
from domain.feegrant.words import WORDS as FEEGRANT
from domain.gov.words import WORDS as GOV
from domain.ledger.words import WORDS as LEDGER
from domain.legs.words import WORDS as LEGS
from domain.market.words import WORDS as MARKET
from domain.messages import Message
from domain.mint.words import WORDS as MINT
from domain.moves import Move, Pot
from domain.node.words import WORDS as NODE
from domain.proof.words import WORDS as PROOF
from domain.queries import Query
from domain.registry.words import WORDS as REGISTRY
from domain.slashing.words import WORDS as SLASHING
from domain.staking.words import WORDS as STAKING
from domain.words import Words

COMPONENTS: tuple[Words, ...] = (
    NODE,
    LEDGER,
    FEEGRANT,
    AUTHZ,
    STAKING,
    MINT,
    DISTRIBUTION,
    REGISTRY,
    SLASHING,
    GOV,
    MARKET,
    LEGS,
    PROOF,
    DISPUTES,
    ATTEST,
)

MESSAGES: tuple[type[Message], ...] = tuple(cls for words in COMPONENTS for cls in words.messages)
"""Every message of the chain."""

QUERIES: Mapping[str, type[Query[Any]]] = MappingProxyType(
    {cls.__name__: cls for words in COMPONENTS for cls in words.queries}
)
"""Every query by the name of its request."""

KINDS: Mapping[str, type[Change]] = MappingProxyType({cls.KIND: cls for words in COMPONENTS for cls in words.events})
"""Every kind of change by its name on the wire."""


def fold_pots(components: Iterable[Words]) -> Mapping[str, Pot]:
    """Return all pots of the components by name. ValueError if two pots have the same name or address."""
    pots: dict[str, Pot] = {}
    addresses: set[str] = set()
    for words in components:
        for pot in words.pots:
            if pot.name in pots:
                raise ValueError(f"two components keep the pot {pot.name}")
            if pot.address and pot.address in addresses:
                raise ValueError(f"the pot {pot.name} has the address of another pot")
            pots[pot.name] = pot
            addresses.add(pot.address)
    return MappingProxyType(pots)


def fold_moves(components: Iterable[Words], pots: Mapping[str, Pot]) -> Mapping[str, Move]:
    """Return all moves of the components by name. ValueError if two share a name, or use a pot that is not declared."""
    moves: dict[str, Move] = {}
    for words in components:
        for move in words.moves:
            if move.name in moves:
                raise ValueError(f"two components cause the move {move.name}")
            for pot in (move.source, move.target):
                if pots.get(pot.name) is not pot:
                    raise ValueError(f"the move {move.name} names the pot {pot.name}, which no component declares")
            moves[move.name] = move
    return MappingProxyType(moves)


POTS: Mapping[str, Pot] = fold_pots(COMPONENTS)
"""Every place where coins can be, by name."""

MOVES: Mapping[str, Move] = fold_moves(COMPONENTS, POTS)
"""Every move of coins by its name, which is also the kind of a payment. Other moves are refused."""


def read_event(event: Attributed) -> Change | None:
    """Return the change that an event describes, or None if the event's kind is not one of this chain's (such as
    ``transfer``).

    Raises ValueError for attributes that :func:`domain.events.to_event` does not write.
    """
    cls = KINDS.get(event.type)
    return None if cls is None else read_change(cls, event)


def changes_of(kind: type[C], events: Iterable[Attributed]) -> Iterator[C]:
    """Yield the changes of class ``kind`` in events, in order. ValueError for attributes that do not fit the class."""
    for event in events:
        if event.type == kind.KIND:
            change: Any = read_event(event)
            yield change
