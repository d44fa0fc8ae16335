"""Each invariant is broken on purpose, and the alarm rings."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from chain.state_machine.context import HEAD, NS, BlockInfo, Context
from chain.state_machine.distribution.tables import REWARDS, STARTS, TOTALS
from chain.state_machine.invariant import InvariantBroken
from chain.state_machine.invariants import check_all
from chain.state_machine.ledger.balances import LedgerBroken, apply_transfer
from chain.state_machine.ledger.tables import (
    BALANCES,
    BOND_ACCOUNTS,
    BOND_ROWS,
    ESCROWS,
    PAYMENTS,
    POTS,
    SUPPLY,
    TALLIES,
)
from chain.state_machine.legs.tables import LEGS, LIVE_LEGS, SLOT_STARTS
from chain.state_machine.market.tables import (
    BIDS,
    BIDS_OF,
    LOADS,
    OPEN_ORDERS,
    ORDERS,
    Load,
    open_key,
)
from chain.state_machine.mint.tables import MINTER
from chain.state_machine.proof.tables import (
    AUDIT_LOAD,
    PANEL_DUTIES,
    PANEL_POTS,
    PANELS,
    ROUNDS,
    SEATS,
    SHARES,
    STANDING_ISSUES,
    WAITING_PANELS,
)
from chain.state_machine.queue import DEADLINES
from chain.state_machine.registry.tables import VALIDATORS
from chain.state_machine.rules import RULES
from chain.state_machine.slashing.tables import MISSED_COUNTS, PAST_LAGS, SIGNING_INFOS, ClockLag
from chain.state_machine.staking.tables import VALIDATOR_STAKES
from chain.state_machine.store import Overlay
from chain.state_machine.tables import Numbers, Table
from domain.distribution.records import ATTOS, ValidatorRewards
from domain.keys import ShareRef
from domain.ledger.records import BondRow, Payment
from domain.legs.records import LegState, SlotStart
from domain.market.records import OrderState
from domain.mint.records import Minter
from domain.params import local_params
from domain.proof.records import AnswerKind, Ruling, SeatAnswer, ShareState
from domain.staking.records import ONE
from localnet.simulator.rechecks import Rechecks
from tests.support.chain_harness import cons_address
from tests.support.chain_market import Market, submit

Break = Callable[[Overlay, bytes], object]


@pytest.fixture(scope="module")
def rich() -> tuple[Market, bytes]:
    """A market with something of everything: bids, an open order, rounds, audits, shares, withdrawals."""
    params = local_params().replace(round_window=100, progress_base=300)
    market = Market(params, bidders=("v0", "v1"), consumers=("carol", "dave"))
    order_id = market.run()
    market.train_round(order_id)
    market.wait_stage(order_id)
    trace = market.trace(order_id, 0)
    market.commit(order_id, trace)
    again = (market.trace(order_id, 0, issue=2), market.trace(order_id, 1))
    market.commit(order_id, *again, reject=[(trace.ref, 10_105)])
    market.submit(submit("dave", price_limit=1))
    check_all(market.chain.store)
    return market, order_id


def edit(table: Table[Any], *parts: Any, **changes: Any) -> Break:
    def apply(store: Overlay, order_id: bytes) -> None:
        full = tuple(order_id if part is ORDER else part for part in parts)
        table.put(store, replace(table.must(store, *full), **changes))

    return apply


def add(numbers: Numbers, amount: int, *parts: str) -> Break:
    return lambda store, _: numbers.set(store, numbers.get(store, *parts) + amount, *parts)


ORDER = object()


def panel(**changes: Any) -> Break:
    return edit(PANELS, ORDER, 1, 0, 0, **changes)


def seat(number: int, **changes: Any) -> Break:
    return edit(SEATS, ORDER, 1, 0, 0, number, **changes)


def deposit_of_nobody(store: Overlay, order_id: bytes) -> None:
    escrow, tally = ESCROWS.must(store, order_id), TALLIES.must(store, order_id)
    first = escrow.depositors[0]
    rows = (replace(first, locked=first.locked + 1), *escrow.depositors[1:])
    ESCROWS.put(store, replace(escrow, depositors=rows))
    TALLIES.put(store, replace(tally, held=tally.held + 1))


def sits_twice(store: Overlay, order_id: bytes) -> None:
    first = SEATS.must(store, order_id, 1, 0, 0, 0)
    second = SEATS.must(store, order_id, 1, 0, 0, 1)
    SEATS.put(store, replace(second, validator=first.validator))


def ruled_without_a_finding(store: Overlay, order_id: bytes) -> None:
    found = PANELS.must(store, order_id, 1, 0, 0)
    first = replace(found.places[0], ruling=Ruling.RIGHT)
    PANELS.put(store, replace(found, places=(first, *found.places[1:])))


def paid_pot(store: Overlay, order_id: bytes) -> None:
    closed = ROUNDS.must(store, order_id, 1, 0)
    ROUNDS.put(store, replace(closed, void=True))
    LEGS.update(store, order_id, 1, void=1)
    PANEL_POTS.set(store, 5, order_id, 1, 0, 0)
    POTS.set(store, POTS.get(store, "audits") + 5, "audits")
    POTS.set(store, POTS.get(store, "community") - 5, "community")


def late_fee(store: Overlay, _: bytes) -> None:
    POTS.set(store, 5, "fees")
    POTS.set(store, POTS.get(store, "community") - 5, "community")


def power_of_nobody(store: Overlay, _: bytes) -> None:
    start = TOTALS.must(store).per_power
    REWARDS.put(store, ValidatorRewards("carol", power=1, start=start))


def waits_for_nobody(store: Overlay, order_id: bytes) -> None:
    found = PANELS.must(store, order_id, 1, 0, 0)
    AUDIT_LOAD.set(store, AUDIT_LOAD.get(store) - found.load)
    PANELS.put(store, replace(found, stage=0, load=0, is_open=False))
    WAITING_PANELS.mark(store, 1, order_id, 1, 0, 0)
    TALLIES.update(store, order_id, waiting=1, waits_since=1)


def duty_of_nobody(store: Overlay, order_id: bytes) -> None:
    sitting = {found.validator for found in SEATS.scan(store, order_id, 1, 0, 0)}
    other = min({"v0", "v1", "v2", "v3"} - sitting)
    PANEL_DUTIES.set(store, 1, other, order_id, 1, 0, 0)


def no_duty(store: Overlay, order_id: bytes) -> None:
    name = SEATS.must(store, order_id, 1, 0, 0, 0).validator
    PANEL_DUTIES.delete(store, name, order_id, 1, 0, 0)


ANSWER = SeatAnswer(0, AnswerKind.UNAVAILABLE, b"", b"", 0)


def drop_queue(store: Overlay, _: bytes) -> None:
    for key in list(store.scan_keys(DEADLINES.key())):
        store.delete(key)


def drop(key: Callable[[bytes], bytes]) -> Break:
    return lambda store, order_id: store.delete(key(order_id))


def drop_all(prefix: bytes) -> Break:
    return lambda store, _: [store.delete(key) for key in list(store.scan_keys(prefix))]  # type: ignore[func-returns-value]


def void_and_verified(store: Overlay, order_id: bytes) -> None:
    closed = ROUNDS.must(store, order_id, 1, 0)
    ROUNDS.put(store, replace(closed, void=True, verified=True))
    LEGS.update(store, order_id, 1, verified=1)
    ORDERS.put(store, replace(ORDERS.must(store, order_id), work_verified=closed.work))


def behind_a_void_round(store: Overlay, order_id: bytes) -> None:
    closed = ROUNDS.must(store, order_id, 1, 0)
    ROUNDS.put(store, replace(closed, round=1))
    ROUNDS.put(store, replace(closed, void=True))
    LEGS.update(store, order_id, 1, round=2, void=1)


def verified_out_of_order(store: Overlay, order_id: bytes) -> None:
    closed = ROUNDS.must(store, order_id, 1, 0)
    ROUNDS.put(store, replace(closed, round=1, verified=True))
    LEGS.update(store, order_id, 1, round=2, verified=1)
    ORDERS.put(store, replace(ORDERS.must(store, order_id), work_verified=closed.work))


def closed_too_many(store: Overlay, order_id: bytes) -> None:
    closed = ROUNDS.must(store, order_id, 1, 0)
    ROUNDS.put(store, replace(closed, round=1))
    work = LEGS.must(store, order_id, 1).work // 2
    LEGS.update(store, order_id, 1, rounds=1, round=2, work=work)


def never_matched(store: Overlay, order_id: bytes) -> None:
    ORDERS.update(store, order_id, legs=0)
    store.delete(LEGS.key(order_id, 1))


def live_predecessor(store: Overlay, order_id: bytes) -> None:
    ORDERS.update(store, order_id, legs=2)
    LEGS.put(store, replace(LEGS.must(store, order_id, 1), number=2))


def verified_twice(store: Overlay, order_id: bytes) -> None:
    """Two legs verified the same round of the same slots."""
    leg, closed = LEGS.must(store, order_id, 1), ROUNDS.must(store, order_id, 1, 0)
    ORDERS.update(store, order_id, legs=2, work_verified=2 * closed.work)
    LEGS.put(store, replace(leg, state=LegState.FAILED, verified=1))
    LEGS.put(store, replace(leg, number=2, verified=1))
    for number in (1, 2):
        ROUNDS.put(store, replace(closed, leg=number, verified=True))


def empty_bond(store: Overlay, order_id: bytes) -> None:
    key = next(iter(store.scan_keys(BOND_ROWS.key(order_id))))
    row = store.record(BondRow, key)
    assert row is not None
    store.put(key, replace(row, amount=0))
    tally = TALLIES.must(store, order_id)
    TALLIES.put(store, replace(tally, held=tally.held - row.amount))
    POTS.set(store, POTS.get(store, "escrows") - row.amount, "escrows")
    SUPPLY.set(store, SUPPLY.get(store) - row.amount)


def bond_below_zero(store: Overlay, _: bytes) -> None:
    first, second = BOND_ACCOUNTS.must(store, "v2"), BOND_ACCOUNTS.must(store, "v3")
    BOND_ACCOUNTS.put(store, replace(first, free=-1))
    BOND_ACCOUNTS.put(store, replace(second, free=second.free + first.free + 1))


def loaded(store: Overlay) -> Load:
    return next(load for load in LOADS.scan(store) if load.work)


BREAKS: dict[str, tuple[Break, str]] = {
    "supply": (add(SUPPLY, 1), "pots hold"),
    "negative pot": (add(POTS, -(10**15), "fees"), "a pot has a negative count"),
    "a coin from nowhere": (add(BALANCES, 1, "carol", "uassay"), "accounts hold"),
    "a bond from nowhere": (edit(BOND_ACCOUNTS, "v1", free=5), "bonds hold"),
    "stake from nowhere": (edit(VALIDATOR_STAKES, "v1", tokens=5), "stakes hold"),
    "another stake in the market": (edit(VALIDATORS, "v1", stake=5), "the registry has another stake"),
    "a reward from nowhere": (edit(REWARDS, "v1", commission=5), "a part of an atto was made or lost"),
    "a coin of rewards": (edit(TOTALS, dust=0), "a part of an atto was made or lost"),
    "dust of a coin": (edit(TOTALS, dust=ATTOS), "the dust of the community pool is a whole coin"),
    "coins of another time": (lambda s, _: MINTER.put(s, Minter(0, 0, 2**40)), "coins are minted up to another time"),
    "an endless inflation": (
        lambda s, _: MINTER.put(s, Minter(ONE + 1, 0, HEAD.must(s).clock_ns // NS)),
        "the inflation is",
    ),
    "no rewards": (edit(TOTALS, per_power=0), "was paid for blocks that do not exist"),
    "a fee that waits": (late_fee, "fees were not shared"),
    "a power of nobody": (power_of_nobody, "validators earn by other powers"),
    "another sum of powers": (edit(TOTALS, power=1), "the sum of the powers is wrong"),
    "a start in the future": (lambda s, o: STARTS.set(s, 2**250, "v1", "v1"), "paid more than its validator earned"),
    "a start of nobody": (lambda s, o: STARTS.set(s, 1, "v1", "carol"), "a delegation that does not exist"),
    "rewards that are not there": (edit(REWARDS, "v1", ratio=2**250), "are owed more than is outstanding"),
    "a validator that is not watched": (
        edit(SIGNING_INFOS, cons_address("v1"), start_height=0, window=0),
        "v1 is watched, or is not, wrongly",
    ),
    "a jail without an end": (edit(VALIDATOR_STAKES, "v1", jailed=True), "v1 is "),
    "a tombstone without evidence": (edit(SIGNING_INFOS, cons_address("v1"), tombstoned=True), "is tombstoned"),
    "missed blocks without bits": (
        lambda s, _: MISSED_COUNTS.set(s, 1, cons_address("v1")),
        "the number of missed blocks is wrong",
    ),
    "a clock that caught up": (
        lambda s, _: PAST_LAGS.put(s, ClockLag(0, 2**62, until=1)),
        "the clock caught up",
    ),
    "a pot from nowhere": (lambda s, o: PANEL_POTS.set(s, 5, o, 1, 0, 0), "audits hold"),
    "held": (edit(TALLIES, ORDER, held=5), "but 5 were counted"),
    "a deposit of nobody": (deposit_of_nobody, "escrows hold"),
    "a bond below zero": (bond_below_zero, "is below zero"),
    "deposit": (edit(ESCROWS, ORDER, depositors=()), "locks"),
    "empty bond": (empty_bond, "empty bond"),
    "a payment too many": (
        lambda s, o: PAYMENTS.put_at(s, Payment("x", "refund", 1, -1), o, 0),
        "lists",
    ),
    "work": (edit(ORDERS, ORDER, work_verified=10**30), "more verified work than ordered"),
    "matched work": (edit(LEGS, ORDER, 1, work=10**30), "does not have the work of its rounds"),
    "counted work": (edit(ORDERS, ORDER, work_verified=1), "wrong count of verified work"),
    "counted void": (edit(LEGS, ORDER, 1, void=1), "counts 1 void rounds, but has 0"),
    "counted verified": (edit(LEGS, ORDER, 1, verified=1), "counts 1 verified rounds, but has 0"),
    "more rounds": (edit(LEGS, ORDER, 1, rounds=9), "reaches beyond its order"),
    "more slots": (edit(LEGS, ORDER, 1, first_slot=1), "reaches beyond its order"),
    "a round left out": (edit(LEGS, ORDER, 1, round=2), "have a gap"),
    "a round too many": (closed_too_many, "in a round that it does not serve"),
    "void and verified": (void_and_verified, "void and verified"),
    "out of order": (verified_out_of_order, "after one that is not verified"),
    "load": (lambda store, _: LOADS.put(store, replace(loaded(store), work=1)), "a wrong amount"),
    "load value": (
        lambda store, _: LOADS.put(store, replace(loaded(store), value=1)),
        "a wrong value",
    ),
    "no load": (drop_all(LOADS.key()), "reserves no capacity"),
    "oversold": (
        lambda s, _: BIDS.put(s, replace(BIDS.scan(s)[0], reserved=1)),
        "reserves a wrong amount",
    ),
    "a leg that no order counts": (edit(ORDERS, ORDER, legs=0), "has 0 legs"),
    "runs without a match": (never_matched, "but has no leg"),
    "decided too much": (edit(LEGS, ORDER, 1, verified=1, void=1), "more decided rounds than closed ones"),
    "a live predecessor": (live_predecessor, "is still live after its successor"),
    "an opening of no slot": (
        lambda s, o: SLOT_STARTS.put(s, SlotStart(o, 1, 2, bytes(32))),
        "has a start for a slot that is not served",
    ),
    "verified twice": (verified_twice, "two verified shares of a slot"),
    "runs on": (edit(ORDERS, ORDER, state=OrderState.OPEN), "is open, but its leg is live"),
    "matched to nobody": (edit(ORDERS, ORDER, state=OrderState.MATCHED), "is matched, but its leg is not"),
    "no queue": (drop_queue, "has no deadline in the queue|no queue entry will end"),
    "a slot left out": (
        edit(ROUNDS, ORDER, 1, 0, shares=(ShareRef(0, 1),)),
        "a share of each slot",
    ),
    "work of a round": (edit(ROUNDS, ORDER, 1, 0, work=1), "a round without the work of its terms"),
    "no such slot": (
        lambda s, o: SHARES.put(s, _moved(SHARES.must(s, o, 1, 1, 0, 1), slot=2)),
        "a slot that its leg does not serve",
    ),
    "work of a share": (edit(SHARES, ORDER, 1, 1, 1, 1, work=1), "a share does not have the work"),
    "slot twice": (
        lambda s, o: SHARES.put(s, replace(SHARES.must(s, o, 1, 1, 0, 1), state=ShareState.COMMITTED)),
        "two shares in a round",
    ),
    "drawn outside": (edit(SHARES, ORDER, 1, 0, 0, 1, drawn=(9,)), "outside its share"),
    "a party sits": (seat(0, validator="carol"), "a party sits"),
    "somebody sits twice": (sits_twice, "sits twice"),
    "a seat too few": (panel(seats=3), "a wrong count of seats"),
    "a count of seats": (panel(committed=1), "wrong counts of committed or revealed seats"),
    "answers uncommitted": (seat(0, answers=(ANSWER,)), "answers without a commitment"),
    "answers of others": (
        seat(0, answers=(replace(ANSWER, place=9),)),
        "an answer for a place outside its duty",
    ),
    "a ruling without a finding": (ruled_without_a_finding, "a ruling without a finding"),
    "paid too early": (panel(is_settled=True), "is settled before its round"),
    "load of auditors": (panel(load=10**6), "load of auditors is not the sum"),
    "waits with room": (
        lambda store, order_id: WAITING_PANELS.mark(store, 1, order_id, 1, 0, 0),
        "waits for room, but has begun",
    ),
    "counted waiting": (edit(TALLIES, ORDER, waiting=1), "wrong count of what it waits for"),
    "waits for nobody": (waits_for_nobody, "but no panel has any"),
    "a pot that is left": (paid_pot, "still has the pot"),
    "a duty when nothing is open": (panel(is_open=False), "a stage that is over"),
    "a duty of somebody else": (duty_of_nobody, "a duty that does not belong to its seat"),
    "no duty": (no_duty, "lacks its duty"),
    "roots too early": (
        lambda s, o: SHARES.put(s, replace(SHARES.must(s, o, 1, 1, 1, 1), roots=SHARES.must(s, o, 1, 0, 1, 1).roots)),
        "a share has roots before",
    ),
    "roots never": (edit(SHARES, ORDER, 1, 0, 0, 1, roots=None), "a share has roots before"),
    "reason": (edit(ORDERS, ORDER, close_reason=5), "with close reason 5"),
    "book": (drop_all(OPEN_ORDERS.key()), "the index of open orders"),
    "index of shares": (drop_all(STANDING_ISSUES.key()), "the index of live shares"),
    "behind a void round": (behind_a_void_round, "after a void one"),
    "index of bids": (drop_all(BIDS_OF.key()), "the index of bids"),
    "index of legs": (drop_all(LIVE_LEGS.key()), "the index of live"),
}


def _moved(share: Any, **changes: Any) -> Any:
    return replace(share, claim=replace(share.claim, **changes))


@pytest.mark.parametrize("name", list(BREAKS))
def test_the_alarm_rings(rich: tuple[Market, bytes], name: str) -> None:
    market, order_id = rich
    overlay = Overlay(market.chain.store)
    apply, text = BREAKS[name]
    # The other order of the fixture is dave's; carol's is the one that is broken.
    apply(overlay, order_id)
    with pytest.raises(InvariantBroken, match=text):
        check_all(overlay)


@pytest.mark.parametrize("name", list(BREAKS))
def test_the_alarm_rings_where_only_what_changed_is_checked(rich: tuple[Market, bytes], name: str) -> None:
    market, order_id = rich
    checks, overlay = Rechecks(), Overlay(market.chain.store)
    checks.check_all(overlay, RULES)
    apply, text = BREAKS[name]
    apply(overlay, order_id)
    checks.note(overlay.changes())
    for _ in range(2):
        with pytest.raises(InvariantBroken, match=text):
            checks.check_all(overlay, RULES)


def test_a_check_is_made_again_when_what_it_read_changes() -> None:
    chain, made = Market(bidders=()).chain, list[int]()

    def check(store: Overlay) -> None:
        made.append(HEAD.must(store).height)

    checks = Rechecks()
    for keys in ((), (), chain.commit(Overlay(chain.store)), (POTS.key("burnt"),), (HEAD.key(),)):
        checks.note(keys)
        checks.run("one", chain.store, check)
    assert len(made) == 2


def test_no_queue_means_that_an_order_lives_for_ever() -> None:
    market = Market(bidders=())
    market.submit()
    market.chain.drop_queue()
    with pytest.raises(InvariantBroken, match="no queue entry will end"):
        check_all(market.chain.store)


def test_an_order_that_outlives_its_last_deadline() -> None:
    market = Market(bidders=())
    order_id = market.submit()
    overlay = Overlay(market.chain.store)
    ORDERS.put(overlay, replace(ORDERS.must(overlay, order_id), deadline=-10_000))
    with pytest.raises(InvariantBroken, match="is not closed after its last deadline"):
        check_all(overlay)


def test_a_closed_order_that_locks_coins() -> None:
    market = Market(bidders=())
    order_id = market.submit()
    overlay = Overlay(market.chain.store)
    order = replace(ORDERS.must(overlay, order_id), state=OrderState.CLOSED, close_reason=1)
    ORDERS.put(overlay, order)
    OPEN_ORDERS.delete(overlay, *open_key(order))
    with pytest.raises(InvariantBroken, match="still locks"):
        check_all(overlay)


def test_conservation_stops_a_block() -> None:
    market = Market(bidders=())
    market.chain.change(lambda overlay: POTS.set(overlay, 1, "burnt"))
    with pytest.raises(InvariantBroken, match="pots hold"):
        market.chain.block()


def test_every_check_of_a_component_is_in_its_value() -> None:
    for component in RULES.components:
        found = component.invariants
        checks = [
            *found.block,
            *found.whole,
            *(check for each in found.each for check in each.checks),
        ]
        names = [check.__name__ for check in checks]
        assert len(names) == len(set(names))
        if names:
            module = import_module(f"chain.state_machine.{component.name}.invariants")
            assert {name for name in dir(module) if name.startswith("check_")} == set(names)


def test_the_ledger_refuses_what_is_not_in_the_table() -> None:
    from domain.ledger.moves import (
        ACCOUNTS_POT,
        BOND_DEPOSIT,
        BOND_RELEASE,
        BONDS_POT,
        BURNT_POT,
        SEND,
    )
    from domain.legs.moves import BURN
    from domain.moves import Move, Transfer
    from domain.proof.moves import CUT
    from tests.support.chain_harness import CHAIN_ID, CRYPTO

    market = Market()
    info = BlockInfo(CHAIN_ID, "uassay", 1, 0, local_params(), b"", b"")
    ctx = Context(market.chain.overlay(), info, CRYPTO, RULES, 1)
    for broken in (
        Transfer(SEND, "carol", "v0", 1),
        Transfer(BOND_DEPOSIT, "carol", "carol", -1),
        Transfer(BOND_DEPOSIT, "nobody", "nobody", 1),
        Transfer(BOND_RELEASE, "carol", "carol", 1),
        Transfer(CUT, "v0", "", 10**18),
        Transfer(BURN, "", "", 1),
        # Nobody declares a tip, and a fee goes elsewhere.
        Transfer(Move("tip", ACCOUNTS_POT, BONDS_POT), "carol", "carol", 1),
        Transfer(Move("fee", ACCOUNTS_POT, BURNT_POT), "carol", "", 1),
    ):
        with pytest.raises(LedgerBroken):
            apply_transfer(ctx, broken)
