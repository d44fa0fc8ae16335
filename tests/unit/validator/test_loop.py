"""What the daemon sends after which event, and what it does when something of it fails: on a real state machine."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from threading import Event

import pytest

from domain.ledger.messages import MsgWithdrawBond
from domain.legs.records import LegState
from domain.market.reasons import CloseReason
from domain.market.records import OrderState
from domain.messages import Message
from domain.proof.messages import MsgCommitTraces, MsgTakeEarly
from domain.proof.reasons import ShareReason
from domain.proof.records import Share, ShareState
from domain.registry.messages import MsgCertifyProvider, MsgRegisterProvider
from link import types as t
from link.errors import ClusterError, ClusterErrorKind
from link.handover import open_chunk
from pol.rules.handover import HandoverId
from tests.support.chain_harness import CHAIN_ID, pub_key, sign
from tests.support.chain_market import BOND, bid, digest
from tests.support.sealed import split
from tests.support.waiting import wait_until
from tests.unit.validator.loop import (
    CONTENT,
    MACHINE,
    ORDER_SECRET,
    PROVIDERS,
    TERMS,
    Loop,
    blob_of,
    caller,
    turning,
    work_of,
)
from validator.decide import orders, outgoing
from validator.decide.admission import Backing, Policy, make_invitation
from validator.decide.records import LocalOrder, SlotWork, accepted_works

ROUND = ["CommitTraces", "AcceptShares", "CloseRound"]
DUTIES = ["AcceptOrder", *ROUND, *ROUND]


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    with turning(tmp_path, monkeypatch) as made:
        yield made


def duties(loop: Loop) -> list[str]:
    return [name for name in loop.node.names() if name != "CertifyProvider"]


def proven(loop: Loop, *order_ids: bytes) -> bool:
    states = [loop.chain(i).legs[-1].state for i in order_ids]
    return all(state in (LegState.PROVEN, LegState.DONE) for state in states)


def work_on(loop: Loop, *order_ids: bytes, until: Callable[[], object] | None = None) -> None:
    """Let everybody do their part until the orders are proven, or something else holds."""

    def holds() -> object:
        loop.join()
        loop.serve()
        return until() if until else proven(loop, *order_ids)

    loop.until(holds)


def started(loop: Loop) -> bytes:
    """Return an order whose payload is here, before the daemon has done anything about it."""
    order_id = loop.order()
    loop.turn()
    loop.deliver(order_id)
    return order_id


def test_an_order_from_match_to_the_result(loop: Loop) -> None:
    order_id = started(loop)
    work_on(loop, order_id)
    assert duties(loop) == DUTIES
    carol = caller("carol")
    with loop.node.lock:
        loop.market.chain.ok(MsgTakeEarly(carol.address, order_id, 1, 1))
    loop.turn()  # it sees that the last round is closed, and that the consumer takes it
    manifest = loop.service.get_result(carol, t.ResultRequest(order_id, 1, 0, 100))
    data = loop.service.get_chunk(carol, t.GetChunkRequest(manifest.ciphertext.sha256, 0, 1 << 20))
    handover = HandoverId(CHAIN_ID, order_id, 1, 1)
    opened = [
        open_chunk(handover, index, sealed, ORDER_SECRET)
        for index, sealed in enumerate(split(data.data, [leaf.sealed for leaf in manifest.leaves]))
    ]
    (closed,) = (known for known in loop.record(order_id).rounds if known.round == 1)
    assert closed.next_global
    left = [closed.next_global.blob]
    left += [work.packet.blobs[1] for work in accepted_works(closed) if work.packet]
    assert len(left) == 1 + TERMS.slots
    blobs = loop.service.blobs
    assert b"".join(opened) == b"".join(blobs.read(b.sha256, 0, b.size) for b in left)


def test_a_receipt_that_comes_late_on_chain_gives_its_provider_the_whole_time(loop: Loop) -> None:
    """Its blocks were full: the time that the signed receipt gave is over before the receipt is posted."""
    order_id = started(loop)
    loop.slow = set(PROVIDERS)

    def has_receipt() -> bool:
        works = [work for current in loop.record(order_id).rounds for work in current.works]
        return any(work.receipt_at for work in works)

    work_on(loop, order_id, until=has_receipt)
    loop.pass_time(loop.chain(order_id).order.params.show_wait + 1)
    work_on(loop, order_id)
    shares = loop.chain(order_id).shares
    assert {share.state for share in shares} == {ShareState.ACCEPTED}
    assert {share.claim.issue for share in shares} == {1}


def test_a_share_whose_key_came_before_its_rejection_is_used_and_its_slot_is_not_issued_again(loop: Loop) -> None:
    """The chain refuses the rejection from then on, and the slot has no room for another share."""
    order_id = started(loop)
    loop.slow = set(PROVIDERS)

    def is_received() -> bool:
        shares = loop.chain(order_id).shares
        return len(shares) == TERMS.slots and all(share.is_received for share in shares)

    work_on(loop, order_id, until=is_received)

    def give_up(local: LocalOrder) -> LocalOrder:
        (current,) = local.rounds
        works = tuple(replace(work, verdict=ShareReason.NO_ANSWER) for work in current.works)
        again = tuple(replace(work, issue=2, verdict=ShareReason.NONE, signed=None) for work in current.works)
        return local.put(replace(current, works=works + again))

    loop.daemon._ledger.change(order_id, 1, give_up)
    work_on(loop, order_id)
    (first, second) = loop.record(order_id).rounds
    assert {work.issue for work in accepted_works(first)} == {1}
    assert {work.provider for work in accepted_works(second)} == {work.provider for work in accepted_works(first)}


def first_of_each() -> Callable[[Message], bool]:
    """Return what is true of the first message of each kind."""
    seen: Counter[type] = Counter()

    def is_first(message: Message) -> bool:
        seen[type(message)] += 1
        return seen[type(message)] == 1

    return is_first


def test_what_was_sent_and_not_answered_is_not_sent_again(loop: Loop) -> None:
    """It is in a block all the same, and the next look shows that."""
    loop.node.lose = first_of_each()
    order_id = started(loop)
    work_on(loop, order_id)
    assert duties(loop) == DUTIES


def test_what_was_refused_is_sent_again(loop: Loop) -> None:
    loop.node.refuse = first_of_each()
    order_id = started(loop)
    work_on(loop, order_id)
    assert sorted(duties(loop)) == sorted([*DUTIES, *sorted(set(DUTIES))])


def test_a_daemon_that_is_killed_all_the_time_does_everything_once(loop: Loop) -> None:
    order_id = started(loop)

    def killed() -> bool:
        loop.restart()
        loop.join()
        return proven(loop, order_id)

    work_on(loop, order_id, until=killed)
    assert duties(loop) == DUTIES


def test_a_daemon_that_is_killed_in_the_middle_of_an_action_begins_it_again(loop: Loop) -> None:
    order_id = started(loop)
    loop.numerics.hold = hold = Event()
    loop.daemon._tick()
    loop.numerics.closed = True  # as it ends when the pool is closed
    hold.set()
    loop.settle()
    loop.numerics.hold = None
    assert loop.record(order_id).payload.stage.name == "COMPLETE"
    loop.restart()
    work_on(loop, order_id)
    assert duties(loop) == DUTIES
    assert loop.numerics.calls.count("try_payload") == 2


def test_a_node_that_is_away_for_a_while_costs_nothing(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chain.client.away.PAUSE_SECONDS", 0.0)
    order_id = started(loop)

    def away() -> bool:
        loop.node.down = True
        loop.turn()
        loop.turn()
        loop.node.down = False
        return proven(loop, order_id)

    work_on(loop, order_id, until=away)
    assert duties(loop) == DUTIES


def test_a_full_disk_does_not_end_the_daemon(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    order_id = started(loop)
    real, fails = loop.daemon._store.save, [True]

    def save(local: object) -> None:
        if fails:
            raise sqlite3.OperationalError("database or disk is full")
        real(local)  # type: ignore[arg-type]

    monkeypatch.setattr(loop.daemon._store, "save", save)
    monkeypatch.setattr(loop.daemon._stop, "wait", lambda _seconds: False)
    loop.join()
    for _ in range(3):
        loop.turn()
    second = loop.order()  # the first thing about it is a record
    loop.turn()
    assert duties(loop) == []
    fails.clear()
    loop.turn()
    loop.deliver(second)
    work_on(loop, order_id, second)


# Providers


def test_a_silent_provider_is_replaced_before_the_leg_fails(loop: Loop) -> None:
    order_id = started(loop)
    loop.join()
    loop.until(lambda: loop.poll(PROVIDERS[0]).train)

    def without_the_first() -> bool:
        loop.join()
        loop.serve(PROVIDERS[1])
        loop.pass_time(5)
        return proven(loop, order_id)

    loop.until(without_the_first)
    chain = loop.chain(order_id)
    assert {share.claim.provider for share in chain.shares} == {PROVIDERS[1]}
    assert chain.order.failures == 0
    fell = [row for row in loop.daemon._store.verdicts(order_id) if row.reason]
    assert {(row.provider, row.reason) for row in fell} == {(PROVIDERS[0], ShareReason.NO_ANSWER)}


def test_a_share_that_the_chain_skips_is_given_to_somebody_else(loop: Loop) -> None:
    """Its provider has no bond any more, so it can never be committed."""
    loop.market.chain.ok(MsgWithdrawBond(PROVIDERS[0], BOND))
    order_id = started(loop)

    def without_the_bond() -> bool:
        loop.join()
        loop.serve()
        loop.pass_time(5)
        return proven(loop, order_id)

    loop.until(without_the_bond)
    shares = loop.chain(order_id).shares
    assert {share.claim.provider for share in shares} == {PROVIDERS[1]}
    fell = [row for row in loop.daemon._store.verdicts(order_id) if row.reason]
    assert {(row.provider, row.reason) for row in fell} == {(PROVIDERS[0], ShareReason.NO_BOND)}


def test_a_slot_waits_for_a_bond_until_the_deadline_of_its_task(loop: Loop) -> None:
    """Until then its provider may deposit the bond and put the share on chain, and this validator would pay twice."""
    loop.market.chain.ok(MsgWithdrawBond(PROVIDERS[0], BOND))
    order_id = started(loop)

    def skipped() -> list[SlotWork]:
        return [work for work in loop.record(order_id).rounds[0].works if work.skipped]

    def known() -> bool:
        loop.join()
        loop.serve()
        return bool(loop.record(order_id).rounds and skipped())

    loop.until(known)
    (work,) = skipped()
    sent = len(loop.node.sent)
    for _ in range(3):
        loop.serve()
        loop.turn()
    assert [work] == skipped()
    assert not any(isinstance(message, MsgCommitTraces) for message in loop.node.sent[sent:])
    assert loop.market.chain.clock < work.answer_by
    loop.pass_time(work.answer_by - loop.market.chain.clock)
    loop.turn()
    (work,) = skipped()
    assert work.verdict == ShareReason.NO_BOND


def test_a_provider_that_opens_nothing_is_rejected_and_its_range_goes_on(loop: Loop) -> None:
    order_id = started(loop)
    work_on(loop, order_id, until=lambda: loop.chain(order_id).shares)

    def without_openings() -> bool:
        loop.join()
        loop.serve(PROVIDERS[1])
        loop.pass_time(5)
        return proven(loop, order_id)

    loop.until(without_openings)
    shares = loop.chain(order_id).shares
    fell = [share for share in shares if share.state is not ShareState.ACCEPTED]
    assert [(s.claim.provider, s.reason) for s in fell] == [(PROVIDERS[0], ShareReason.NO_ANSWER)]


def rejected(loop: Loop, order_id: bytes) -> list[Share]:
    return [s for s in loop.chain(order_id).shares if s.state is ShareState.REJECTED]


def test_a_wrong_share_is_rejected_before_its_slot_goes_on(loop: Loop) -> None:
    order_id = started(loop)
    work_on(loop, order_id, until=lambda: loop.chain(order_id).shares)
    # Of both shares, since nobody else is there.
    loop.numerics.wrong = {0: ShareReason.SEGMENT_MISMATCH}
    work_on(loop, order_id, until=lambda: len(rejected(loop, order_id)) == 2)
    assert {share.reason for share in rejected(loop, order_id)} == {ShareReason.SEGMENT_MISMATCH}
    assert set(loop.record(order_id).excluded) == set(PROVIDERS)


def test_a_node_that_lags_is_not_believed(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows no share yet: a wrong one would never be told to the chain, and block its slot for good."""
    monkeypatch.setattr("chain.client.away.PAUSE_SECONDS", 0.0)
    order_id = started(loop)
    past: list[object] = []

    def is_wrong() -> bool:
        loop.numerics.wrong = {0: ShareReason.SEGMENT_MISMATCH}
        works = [w for known in loop.record(order_id).rounds for w in known.works]
        if not past and any(w.signed for w in works) and not loop.chain(order_id).shares:
            past.append(deepcopy(loop.market.chain.store))
        return any(w.verdict for w in works)

    loop.node.refuse = lambda message: bool(getattr(message, "rejections", ()))
    work_on(loop, order_id, until=is_wrong)
    (loop.node.past,) = past  # type: ignore[assignment]
    before = loop.record(order_id)
    loop.turn()
    assert loop.record(order_id) == before
    loop.restart()  # another daemon does not believe it either
    loop.turn()
    assert loop.record(order_id) == before
    loop.node.past, loop.node.refuse = None, lambda _message: False
    loop.until(lambda: rejected(loop, order_id))


# Many at once


def test_duties_do_not_wait_behind_a_crowd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may join an open cluster and have a speed certified: a transaction for each of them."""
    with turning(tmp_path, monkeypatch, certified=False, providers=40) as loop:
        order_id = started(loop)
        loop.join(*loop.market.clusters["v0"])
        loop.measure(*loop.market.clusters["v0"])
        go = Event()
        loop.node.wait = lambda message: isinstance(message, MsgCertifyProvider) and go.wait(20)
        for _ in range(20):  # while the first of them is on its way into a block
            loop.daemon._observer._slow_at = 0.0
            loop.daemon._tick()
            wait_until(lambda: not loop.daemon._lanes.busy(), "the end of what needs no transaction")
        go.set()
        loop.until(lambda: loop.chain(order_id).order.state == OrderState.RUNNING)
        assert loop.node.names().index("AcceptOrder") < 10
        loop.until(lambda: all(m.speed for m in loop.service.view.providers.values()), 100)
        assert loop.node.names().count("CertifyProvider") == 40  # everybody's turn comes


def test_a_provider_whose_certificate_is_refused_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with turning(tmp_path, monkeypatch, certified=False) as loop:
        monkeypatch.setattr(outgoing, "RETRY_MS", 2_000)
        loop.join()
        loop.measure(*PROVIDERS)
        loop.node.refuse = lambda message: getattr(message, "provider", "") == PROVIDERS[0]
        loop.until(lambda: loop.service.view.providers[PROVIDERS[1]].speed)
        assert loop.service.view.providers[PROVIDERS[0]].speed == 0


def test_a_certificate_that_was_refused_is_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with turning(tmp_path, monkeypatch, certified=False) as loop:
        loop.join(PROVIDERS[0])
        loop.measure(PROVIDERS[0])
        loop.turn()
        assert loop.node.names() == []  # its answer was compared first
        loop.node.refuse = first_of_each()
        loop.turn()
        loop.daemon._tick()  # from the same look: not yet
        loop.settle()
        assert loop.node.names() == ["CertifyProvider"]
        loop.until(lambda: loop.service.view.providers[PROVIDERS[0]].speed)
        assert loop.node.names() == ["CertifyProvider"] * 2
        (found,) = (p.capability for p in loop.cluster() if p.capability)
        assert found.memory == MACHINE.memory
        assert found.speed > 0


def test_who_asks_is_measured_then_admitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with turning(tmp_path, monkeypatch) as loop:
        name = "v1p0"
        assert "has not yet read" in loop.ask(name).reason
        loop.turn()
        assert "has not yet read" in loop.ask(name).reason  # it has asked another validator
        loop.market.chain.ok(MsgRegisterProvider(name, "v0"))
        loop.turn()
        assert loop.ask(name).probe
        assert name not in {worker.address for worker in loop.service.workers()}
        loop.measure(name)
        assert "on its way" in loop.ask(name).reason
        loop.until(lambda: loop.ask(name).accepted)
        assert loop.node.names() == ["AdmitProvider", "CertifyProvider"]
        (worker,) = (w for w in loop.service.workers() if w.address == name)
        assert worker.newcomer
        assert worker.speed > 0


@pytest.mark.parametrize("policy", ["invited", "closed"])
def test_nobody_is_measured_who_is_not_to_be_admitted(loop: Loop, policy: str) -> None:
    loop.daemon._config = replace(loop.daemon._config, admit=Policy(policy))
    loop.market.chain.ok(MsgRegisterProvider("v1p0", "v0"), MsgRegisterProvider("v1p1", "v0"))
    loop.turn()
    before = len(loop.node.sent)
    assert "this validator " in loop.ask("v1p0").reason
    loop.turn()
    assert loop.service.roles(caller("v1p0")) == frozenset()
    assert loop.service.prober.step("v1p0", ()).text == "no measurement is due"
    loop.daemon._store.name("v1p1", admit=True)
    loop.daemon._store.name("v1p0", admit=False)
    loop.turn()
    assert "dismissed" in loop.ask("v1p0").reason
    assert ("does not admit providers" in loop.ask("v1p1").reason) == (policy == "closed")
    loop.turn()
    assert loop.ask("v1p1").probe == (policy == "invited")
    assert len(loop.node.sent) == before


BACKING = Backing(3, 700)


def test_who_shows_an_invitation_is_measured(loop: Loop) -> None:
    loop.daemon._config = replace(loop.daemon._config, admit=Policy.INVITED)
    loop.market.chain.ok(MsgRegisterProvider("v1p0", "v0"), MsgRegisterProvider("v1", "v0"))
    loop.turn()

    def ask(name: str, validator: str) -> t.JoinReply:
        until = loop.service.view.clock + 1_000
        invitation = make_invitation(
            CHAIN_ID, validator, until, Backing(3, 700), lambda message: sign(pub_key(validator), message)
        )
        request = t.JoinRequest("1", MACHINE, (), invitation=invitation)
        reply: t.JoinReply = loop.service.join(caller(name), request)
        return reply

    assert "invited providers" in ask("v1p0", "v1").reason
    assert "operators" in ask("v1", "v0").reason
    ask("v1p0", "v0")
    loop.turn()
    assert ask("v1p0", "v0").probe


def test_a_wrong_answer_to_a_probe_admits_nobody(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    loop.market.chain.ok(MsgRegisterProvider("v1p0", "v0"))
    loop.turn()
    loop.ask("v1p0")
    loop.turn()
    monkeypatch.setattr("tests.unit.validator.loop.answer_of", guesses)
    loop.measure("v1p0")
    loop.turn()
    loop.turn()
    assert loop.node.names() == []
    reply = loop.ask("v1p0")
    assert not reply.accepted
    assert not reply.probe
    assert "differs from its recomputation" in reply.reason


def guesses(task: t.ProbeTask) -> tuple[bytes, ...]:
    """Answer about the way rightly, and about the work from memory."""
    if task.data:
        return (sha256(task.data).digest(),)
    return tuple(digest("of another seed", piece) for piece in range(task.pieces))


def test_nobody_is_measured_while_there_is_something_to_train(loop: Loop) -> None:
    order_id = started(loop)
    work_on(loop, order_id, until=lambda: loop.chain(order_id).order.state == OrderState.RUNNING)
    loop.until(lambda: loop.poll(PROVIDERS[0]).train)
    loop.service.prober.want([PROVIDERS[0]])
    assert not loop.poll(PROVIDERS[0]).probe
    task = loop.service.probe(caller(PROVIDERS[0]), t.ProbeRequest(()))
    assert task.over
    assert "share to train first" in task.text


def test_several_orders_in_one_cluster_all_end(loop: Loop) -> None:
    order_ids = [started(loop) for _ in range(4)]
    work_on(loop, *order_ids)
    assert Counter(duties(loop)) == Counter(DUTIES * 4)


def test_an_order_that_goes_to_another_after_a_failed_leg_is_let_go(loop: Loop) -> None:
    order_id = started(loop)
    work_on(loop, order_id, until=lambda: loop.chain(order_id).shares)
    while loop.chain(order_id).order.state == OrderState.RUNNING:  # nobody answers any more
        loop.pass_time(10)
    loop.market.chain.ok(bid("v1"))
    assert loop.chain(order_id).legs[-1].validator == "v1"
    sent = len(loop.node.sent)
    loop.turn()
    assert len(loop.node.sent) == sent
    assert loop.poll(PROVIDERS[0]).train == ()
    with pytest.raises(ClusterError, check=lambda error: error.kind is ClusterErrorKind.NOT_FOUND):
        loop.deliver(order_id)
    assert {row.reason for row in loop.daemon._store.verdicts(order_id)} <= {ShareReason.NO_ANSWER}
    # Deliveries are kept as long as their providers may show the keys.
    offers = [work.offer for known in loop.record(order_id).rounds for work in known.works if work.offer]
    assert offers
    assert all(loop.daemon._blobs.has(offer.ciphertext.sha256) for offer in offers)
    for _ in range(40):
        loop.pass_time(10)
        loop.turn()
    assert loop.daemon._blobs.total() == 0


# Keeping


def test_a_result_is_kept_for_a_week_after_closing_and_then_forgotten(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id = started(loop)
    work_on(loop, order_id)
    result = loop.record(order_id).rounds[-1].sealed
    assert result
    work_on(loop, order_id, until=lambda: loop.market.leg(order_id).settles_at)
    work_on(loop, order_id, until=lambda: loop.chain(order_id).order.state == OrderState.CLOSED)
    assert loop.chain(order_id).order.close_reason == CloseReason.SETTLED
    loop.turn()
    assert loop.daemon._blobs.has(result.blob.sha256)
    assert not loop.daemon._blobs.has(blob_of(CONTENT["job.json"]).sha256)
    monkeypatch.setattr(orders, "KEEP_SECONDS", 100)
    # This machine's clock says nothing.
    monkeypatch.setattr("validator.work.upkeep.time.time", lambda: 1e11)
    loop.turn()
    assert loop.daemon._blobs.has(result.blob.sha256)
    loop.pass_time(101)
    loop.turn()
    assert loop.daemon._store.all_orders() == []
    assert not loop.daemon._blobs.has(result.blob.sha256)


def test_rounds_that_are_over_leave_the_record(loop: Loop) -> None:
    order_id = started(loop)
    work_on(loop, order_id)
    assert loop.record(order_id).find(0)
    update = work_of(loop.record(order_id), 0, 0).packet.update
    work_on(loop, order_id, until=lambda: loop.record(order_id).find(0) is None)
    assert loop.chain(order_id).rounds[0].verified
    loop.turn()
    assert not loop.daemon._blobs.has(update.sha256)
