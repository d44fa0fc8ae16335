"""What goes out next: all that is due together, nothing lost, nothing twice, what ends first before the rest."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.ledger.messages import MsgDepositBond
from domain.legs.messages import MsgAcceptOrder
from domain.limits import MESSAGES_MAX
from domain.messages import Message
from domain.proof.messages import MsgCommitAnswer, MsgRevealAnswer
from domain.proof.records import AnswerKind, SeatAnswer
from domain.registry.messages import MsgCertifyProvider
from tests.support.chain_market import digest
from validator.decide import outgoing
from validator.decide.actions import NEVER, SendAnswer, SendNotice, SendTx
from validator.decide.outgoing import (
    PAUSE_MS,
    RETRY_MS,
    RETRY_MS_MAX,
    Outgo,
    Outgoing,
    arrived,
    bundle,
    failed,
    in_lane,
    messages_of,
    refused,
    sift,
    take,
    waiting,
    want,
)

ME = "v0"


def answer(name: int, by: int = 100) -> SendAnswer:
    message = MsgCommitAnswer(ME, digest("order", name), 1, 0, 1, digest("commitment", name))
    return SendAnswer(f"seat {name:03}", message, agreed=True, by=by)


def accept(name: int, by: int = 100) -> SendTx:
    return SendTx(f"accept {name:03}", (MsgAcceptOrder(ME, digest("order", name), 1),), by)


def notice(name: int) -> SendNotice:
    message = MsgCertifyProvider(ME, f"p{name}", "cpu", 1, 1, 1, 1)
    return SendNotice(f"certify {name:03}", (message,))


def keys(actions: Sequence[Outgo]) -> list[str]:
    return [action.key for action in actions]


def wanted(*actions: Outgo, seen: int = 1) -> Outgoing:
    return want(Outgoing(), actions, seen, whole=True)


# One transaction


def test_all_that_is_due_of_one_half_goes_together_and_what_ends_first_is_first() -> None:
    seats = [answer(number, by=50 + number) for number in range(12)]
    orders = [accept(1, by=49), accept(2, by=70)]
    state = take(wanted(*reversed(seats), *orders), 2)
    assert keys(state.under_way) == keys(orders)
    state = want(arrived(state, 3), seats, 4, whole=True)
    assert keys(take(state, 5).under_way) == keys(seats)


def test_nothing_goes_with_a_duty_or_before_it() -> None:
    """Other messages would put it out of the lane, and one under way would keep it waiting."""
    bond = SendTx("bond", (MsgDepositBond(ME, 1),), by=1)
    state = take(wanted(bond, answer(1, by=50)), 2)
    assert keys(state.under_way) == ["seat 001"]
    assert keys(take(arrived(state, 3), 4).under_way) == ["bond"]


def test_a_duty_offers_the_lowest_price_until_it_has_failed() -> None:
    state = take(wanted(answer(1)), 2)
    assert in_lane(state)
    state = take(want(failed(state, ["seat 001"], 3), (answer(1),), 4, whole=True), RETRY_MS + 10)
    assert keys(state.under_way) == ["seat 001"]
    assert not in_lane(state)
    assert not in_lane(take(wanted(notice(1)), 2))


def test_more_than_a_transaction_holds_goes_by_deadline() -> None:
    seats = [answer(number, by=1_000 - number) for number in range(20)]
    going = take(wanted(*seats), 2).under_way
    assert len(going) == MESSAGES_MAX
    assert {action.by for action in going} == set(range(981, 981 + MESSAGES_MAX))


def test_what_strangers_can_make_fail_takes_nothing_with_it() -> None:
    """A provider that leaves while its certificate is on the way would make every answer beside it late."""
    state = take(wanted(notice(1), answer(1), notice(2), answer(2)), 2)
    assert keys(state.under_way) == ["seat 001", "seat 002"]
    state = take(arrived(state, 3), 4)
    assert keys(state.under_way) == ["certify 001"]
    assert keys(take(arrived(state, 5), 6).under_way) == ["certify 002"]


def test_long_lists_do_not_come_together() -> None:
    answers = tuple(SeatAnswer(i, AnswerKind.FINISHED, bytes(32), bytes(32), 0) for i in range(400))
    shown = [
        SendAnswer(
            f"{number}",
            MsgRevealAnswer(ME, digest(number), 1, 0, 1, bytes(32), answers, ()),
            agreed=True,
            by=number,
        )
        for number in range(3)
    ]
    assert [len(bundle(shown[at:])) for at in range(3)] == [1, 1, 1]
    small = answer(1)
    assert keys(bundle([*shown[:1], small])) == ["0", small.key]


def test_one_is_under_way_at_a_time() -> None:
    state = take(wanted(answer(1)), 2)
    more = want(state, (answer(1), answer(2)), 3, whole=True)
    assert take(more, 4).under_way == state.under_way
    assert keys(take(arrived(more, 5), 6).under_way) == ["seat 002"]


# What looks want


def test_what_a_later_look_does_not_want_is_dropped() -> None:
    state = want(wanted(answer(1), answer(2)), (answer(2),), 2, whole=True)
    assert keys(waiting(state, 3)) == ["seat 002"]


def test_a_notice_stands_from_one_whole_look_to_the_next() -> None:
    state = want(wanted(notice(1)), (answer(1),), 2, whole=False)
    assert keys(waiting(state, 3)) == ["seat 001", "certify 001"]
    assert waiting(want(state, (), 4, whole=True), 5) == ()


def test_what_was_sent_is_not_sent_again_because_of_a_look_before() -> None:
    """A look that began before a transaction ended may miss what it did."""
    state = arrived(take(wanted(answer(1), seen=10), 11), 20)
    state = want(state, (answer(1),), 20, whole=True)
    assert waiting(state, 20 + PAUSE_MS) == ()
    state = want(state, (answer(1),), 21, whole=True)
    assert waiting(state, 21) == ()
    assert keys(waiting(state, 20 + PAUSE_MS)) == ["seat 001"]


def test_a_notice_is_not_sent_again_before_a_whole_look_has_seen_what_it_did() -> None:
    state = arrived(take(wanted(notice(1), seen=10), 11), 20)
    state = want(state, (), 10_000, whole=False)
    assert waiting(state, 10_000) == ()


# What fails


def test_what_failed_waits_longer_each_time_and_holds_up_no_other() -> None:
    state, now, pauses = wanted(answer(1), answer(2)), 2, []
    for _ in range(4):
        state = failed(take(state, now), ("seat 001",), now)
        state = want(state, (answer(1),), now + 1, whole=True)
        before = now
        while not waiting(state, now):
            now += 1
        pauses.append(now - before)
    assert pauses == [RETRY_MS, 2 * RETRY_MS, RETRY_MS_MAX, RETRY_MS_MAX]
    state = want(state, (answer(1), answer(2)), now, whole=True)
    state = failed(take(state, now), ("seat 001",), now)
    assert keys(waiting(state, now)) == ["seat 002"]


def test_one_that_fails_leaves_the_rest_to_go_at_once() -> None:
    state = take(wanted(*map(answer, range(5))), 2)

    def passes(actions: Sequence[Outgo]) -> bool:
        return "seat 003" not in keys(actions)

    kept, bad = sift(state.under_way, passes)
    assert keys(bad) == ["seat 003"]
    state = take(refused(state, kept, bad, 3), 4)
    assert keys(state.under_way) == ["seat 000", "seat 001", "seat 002", "seat 004"]


def test_what_passes_only_by_itself_goes_by_itself() -> None:
    """Two that need the same coins: neither is at fault."""
    state = take(wanted(*map(answer, range(3))), 2)

    def passes(actions: Sequence[Outgo]) -> bool:
        return not {"seat 000", "seat 002"} <= set(keys(actions))

    kept, bad = sift(state.under_way, passes)
    assert (keys(kept), bad) == (["seat 000", "seat 001"], ())


def test_where_nobody_knows_why_transactions_get_smaller_and_then_larger_again() -> None:
    state = take(wanted(*map(answer, range(8))), 2)
    sizes = []
    while len(state.under_way) > 1:
        sizes.append(len(state.under_way))
        state = take(refused(state, state.under_way, (), 3), 4)
    assert sizes == [8, 4, 2]
    now = 4
    while waiting(state, now) or state.under_way:
        sizes.append(len(state.under_way))
        state = take(arrived(state, now), now)
    assert sizes == [8, 4, 2, 1, 2, 4, 1]


def test_one_that_was_refused_alone_has_failed() -> None:
    state = take(wanted(answer(1)), 2)
    kept, bad = sift(state.under_way, lambda _: True)
    assert (kept, keys(bad)) == ((), ["seat 001"])


# Whatever happens


@dataclass
class Chain:
    """Takes each message once, and no transaction with one that is spoilt; it has room for twelve."""

    done: dict[str, int] = field(default_factory=dict)
    spoilt: set[str] = field(default_factory=set)

    def passes(self, actions: Sequence[Outgo]) -> bool:
        names = keys(actions)
        return not ({*names} & {*self.done, *self.spoilt}) and len(messages_of(actions)) <= 12


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(4, 40)), min_size=1, max_size=60),
    st.lists(st.sampled_from(("taken", "lost before", "lost after", "late look", "odd")), max_size=60),
    st.sets(st.integers(0, 59), max_size=5),
)
def test_nothing_is_lost_nothing_goes_twice(due: list[tuple[int, int]], dice: list[str], spoilt: set[int]) -> None:
    """Each second a look wants what is missing, a transaction ends, and answers get lost.

    What cannot go through harms nothing else, and where all goes well everything that can be in time is.
    """
    chain, state = Chain(spoilt={answer(n).key for n in spoilt}), Outgoing()
    actions: dict[str, tuple[int, Outgo]] = {}
    for number, (since, lasts) in enumerate(due):
        action = accept(number, since + lasts) if number % 3 else answer(number, since + lasts)
        actions[action.key] = (since, action)
    for clock in range(2_000):
        now = 1_000 * clock
        what = dice.pop(0) if dice else "taken"
        missing = [made for key, (since, made) in actions.items() if clock >= since and key not in chain.done]
        state = want(state, missing, now - (5_000 if what == "late look" else 0), whole=True)
        state = take(state, now)
        going = state.under_way
        ends = [made.by for made in going]
        assert ends == sorted(ends)
        if not going:
            if clock > 110 and not actions.keys() - chain.done.keys() - chain.spoilt:
                break
            continue
        if what == "lost before":
            state = failed(state, keys(going), now + 1)
        elif what == "odd" or not chain.passes(going):
            state = refused(state, *sift(going, chain.passes), now + 1)
        else:
            for key in keys(going):
                assert key not in chain.done, "twice"
                chain.done[key] = clock
            lost = what == "lost after"
            state = failed(state, keys(going), now + 1) if lost else arrived(state, now + 1)
    assert actions.keys() - chain.done.keys() <= chain.spoilt


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(3, 9)), min_size=1, max_size=40))
def test_where_all_goes_well_everything_is_in_time(due: list[tuple[int, int]]) -> None:
    """Three transactions hold forty, which is all there is, however they fall together."""
    state, done = Outgoing(), dict[str, int]()
    actions = [(since, answer(n, since + lasts)) for n, (since, lasts) in enumerate(due)]
    for clock in range(60):
        missing = [made for since, made in actions if clock >= since and made.key not in done]
        state = take(want(state, missing, 1_000 * clock, whole=True), 1_000 * clock)
        done |= dict.fromkeys(keys(state.under_way), clock)
        state = arrived(state, 1_000 * clock + 1)
    assert all(done[made.key] < made.by for _, made in actions)


def test_what_was_sent_long_ago_is_forgotten() -> None:
    state = arrived(take(wanted(answer(1)), 2), 3)
    assert state.past
    assert not want(state, (), 4 + outgoing.FORGET_MS, whole=True).past


def test_a_notice_has_no_deadline() -> None:
    assert notice(1).by == NEVER > answer(1).by


@pytest.mark.parametrize("action", [answer(1), accept(1), notice(1)])
def test_what_goes_out_has_messages(action: Outgo) -> None:
    (message,) = messages_of((action,))
    assert isinstance(message, Message)
