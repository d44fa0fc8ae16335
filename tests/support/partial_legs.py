"""A chain whose legs serve a part of their orders, as resumed legs and slices will."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from chain.state_machine.components import COMPONENTS
from chain.state_machine.context import Context
from chain.state_machine.legs.component import COMPONENT as LEGS
from chain.state_machine.legs.creation import LegExtent, open_leg
from chain.state_machine.market.hooks import MATCHED, Match
from chain.state_machine.rules import Rulebook, Rules
from domain.genesis import Genesis
from tests.support.chain_harness import Chain


def partial_rules(make_extent: Callable[[Match], LegExtent]) -> Rulebook:
    """Return rules by which each match opens a leg of the extent that ``make_extent`` returns."""

    def open_part(ctx: Context, match: Match) -> None:
        open_leg(ctx, match, make_extent(match))

    hooks = tuple(found for found in LEGS.hooks if found.hook is not MATCHED)
    legs = replace(LEGS, hooks=(MATCHED.to(open_part), *hooks))
    components = tuple(legs if component is LEGS else component for component in COMPONENTS)
    return Rulebook(Rules(1, components))


def partial_chain(make_extent: Callable[[Match], LegExtent]) -> type[Chain]:
    """Return a chain on which each match opens a leg of the extent that ``make_extent`` returns."""
    rulebook = partial_rules(make_extent)

    class PartialChain(Chain):
        """The chain with other legs."""

        def __init__(self, genesis: Genesis, **options: Any) -> None:
            super().__init__(genesis, rulebook=rulebook, **options)

    return PartialChain
