"""Hooks: components above take part in one below, in their order, and the one below knows none of them."""

from dataclasses import replace

from chain.state_machine.component import Component
from chain.state_machine.components import COMPONENTS
from chain.state_machine.context import Context
from chain.state_machine.hook import Hook
from chain.state_machine.mempool import next_block
from chain.state_machine.rules import Rulebook, Rules
from chain.state_machine.steps import BEGIN, END
from tests.support.chain_harness import CRYPTO, Chain, make_genesis

ASKED: Hook[[int, str], str] = Hook("asked")
GENESIS = make_genesis(("alice",), ("v0", "v1"))


def first(ctx: Context, number: int, text: str) -> str:
    return f"first {number} {text}"


def second(ctx: Context, number: int, text: str) -> str:
    return f"second {number} {text} at {ctx.height}"


LOWER = Component(name="lower", hooks=(ASKED.to(first),))
UPPER = Component(name="upper", hooks=(ASKED.to(second),))


def context(*components: Component) -> Context:
    overlay = Chain(GENESIS).overlay()
    return Context(overlay, next_block(overlay), CRYPTO, Rules(1, (*COMPONENTS, *components)), 1)


def test_subscribers_answer_in_the_order_of_the_components() -> None:
    answers = ["first 7 x", "second 7 x at 1"]
    assert ASKED(context(LOWER, UPPER), 7, "x") == answers
    assert ASKED(context(UPPER, LOWER), 7, "x") == answers[::-1]


def test_a_hook_without_subscribers_is_silent() -> None:
    assert ASKED(context(), 7, "x") == []


def test_a_component_may_subscribe_twice_and_two_rules_have_their_own() -> None:
    twice = replace(LOWER, hooks=(ASKED.to(first), ASKED.to(second)))
    assert len(ASKED(context(twice), 1, "")) == 2
    assert len(ASKED(context(LOWER), 1, "")) == 1


def test_the_steps_of_a_block_are_hooks() -> None:
    steps: list[str] = []
    watch = Component(
        name="watch",
        hooks=(
            END.to(lambda ctx: steps.append(f"end {ctx.height}")),
            BEGIN.to(lambda ctx: steps.append(f"begin {ctx.height}")),
        ),
    )
    chain = Chain(GENESIS, rulebook=Rulebook(Rules(1, (*COMPONENTS, watch))))
    chain.block()
    chain.block()
    assert steps == ["begin 1", "end 1", "begin 2", "end 2"]
