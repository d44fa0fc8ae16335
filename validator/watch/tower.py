"""A watchtower: it recomputes random places of running orders, and challenges those that are wrong.

One thread reads the chain, recomputes one place at a time, and sends challenges. The decisions are in
:mod:`validator.watch.choose`. A place is challenged only if the watchtower's own recomputation differs from the chain,
so its bond is lost only if the chain's panel finds the chain right.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Protocol

from chain.client.client import ChainClient
from chain.client.errors import ChainError, TxRefused
from chain.client.sender import TxSender
from domain.amount import in_assay
from domain.disputes.messages import MsgWaive
from domain.disputes.queries import DisputesRequest
from domain.disputes.records import Dispute, DisputeState
from domain.errors import Expected
from domain.keys import PanelKey, RoundKey
from domain.limits import QUERY_LIMIT_MAX
from domain.market.queries import OrdersRequest
from domain.market.records import OrderState
from domain.proof.queries import OrderRequest, OrderResponse
from domain.proof.records import AnswerKind, AuditPlace, Round
from domain.registry.queries import ValidatorsRequest
from host.metrics import Meters
from link.errors import ClusterError
from validator.watch import metrics
from validator.watch.appeal import RuledRound, compute_appeal_bond, find_rulings, send_appeal
from validator.watch.challenge import compute_bond, send_challenge
from validator.watch.choose import HOUR, Target, Watch, choose_target, find_waiver, list_rounds, spare_work
from validator.watch.recompute import PlaceCheck
from validator.watch.store import OwnChallenge, TowerStore

_log = logging.getLogger("assay.watchtower")
MARGIN_SECONDS = 10
"""Chain seconds before the end of a round's window in which no further place of it is recomputed: they are for the two
transactions of a challenge."""
LOOK_SECONDS = 5.0
"""Longest age (s) of the orders from which places are chosen."""
RETRY_SECONDS = 30.0
"""Seconds until a round is looked at again whose validator did not serve a place, or a challenge is sent again."""
ACTIVE = (OrderState.MATCHED, OrderState.RUNNING, OrderState.PROVEN, OrderState.OPEN)
"""States of orders that may have rounds that are not verified yet."""


_ID_SHOWN = 12


class Tell(Protocol):
    """A function that reports an event: its name, its text for people, and its values for programs."""

    def __call__(self, event: str, text: str, /, **values: object) -> None:
        """Report the event."""
        ...


Check = Callable[[OrderResponse, Round, AuditPlace, float], PlaceCheck]
"""A function that recomputes a place within so many seconds. It raises a ClusterError if the validator refuses."""


@dataclass(frozen=True, slots=True)
class TowerBudget:
    """The limits of a watchtower: most bonds (uassay) locked at a time, and most work (FLOPs) per hour, 0 for any."""

    bond: int
    work: int = 0


@dataclass(frozen=True, slots=True)
class TowerTotals:
    """The totals of a watchtower since its start; amounts are in uassay.

    ``would_earn`` is the largest sum of rewards for what a dry run found; a leg counts once, because a round that is
    found wrong ends its leg.
    """

    places: int = 0
    right: int = 0
    wrong: int = 0
    unserved: int = 0
    work: int = 0
    challenges: int = 0
    earned: int = 0
    lost: int = 0
    would_earn: int = 0
    would_lock: int = 0


@dataclass(slots=True)
class Watchtower:
    """A watchtower with its connections. :meth:`step` makes one step; only one thread may call it."""

    client: ChainClient
    sender: TxSender
    secret: bytes
    store: TowerStore
    check: Check
    tell: Tell
    meters: Meters
    name: Callable[[AuditPlace], str]
    budget: TowerBudget
    only: Sequence[bytes] = ()
    dry_run: bool = False
    unserved: bool = False
    stop: Event = field(default_factory=Event)
    now: Callable[[], float] = time.monotonic
    totals: TowerTotals = field(default_factory=TowerTotals)
    clock: int = 0
    looked: float = 0.0
    _orders: tuple[OrderResponse, ...] = ()
    _validators: frozenset[str] = frozenset()
    _checked: dict[RoundKey, set[AuditPlace]] = field(default_factory=dict)
    _accused: dict[tuple[bytes, int], int] = field(default_factory=dict)
    _done: list[tuple[int, int]] = field(default_factory=list)
    _later: dict[RoundKey, float] = field(default_factory=dict)
    _doubtful: set[RoundKey] = field(default_factory=set)
    _waived: dict[tuple[bytes, int], int] = field(default_factory=dict)
    _looked_at: set[PanelKey] = field(default_factory=set)
    _sends_at: float = 0.0
    _reported: set[str] = field(default_factory=set)

    def step(self) -> bool:
        """Look at the chain, go on with the own challenges, and recompute a place; return False if there was none.

        Raise ChainError if the node does not answer.
        """
        self._look()
        self._follow()
        self._pursue()
        if self._appeal():
            return True
        target = choose_target(self._orders, self.clock, self._make_watch())
        if target is None:
            self._waive()
            return False
        self._recompute(target)
        return True

    # --- looking -----------------------------------------------------------------------------------

    def _look(self) -> None:
        self.clock = self.client.status().clock
        if self.looked and self.now() - self.looked < LOOK_SECONDS:
            return
        self._validators = frozenset(v.operator for v in self.client.query(ValidatorsRequest()).validators)
        self._orders = tuple(self.client.query(OrderRequest(order_id)) for order_id in self._list_orders())
        self.looked = self.now()
        open_rounds = {closed.key for on_chain in self._orders for closed in on_chain.rounds}
        self._checked = {key: places for key, places in self._checked.items() if key in open_rounds}
        watch = self._make_watch()
        rounds = sum(1 for on_chain in self._orders for _ in list_rounds(on_chain, self.clock, watch))
        self.meters.show(metrics.ROUNDS, rounds)

    def _list_orders(self) -> list[bytes]:
        if self.only:
            return list(self.only)
        found: list[bytes] = []
        for state in ACTIVE:
            after = b""
            while True:
                request = OrdersRequest(consumer="", validator="", state=int(state), limit=QUERY_LIMIT_MAX, after=after)
                page = self.client.query(request).orders
                found += [order.id for order in page if order.legs]
                if len(page) < QUERY_LIMIT_MAX:
                    break
                after = page[-1].id
        return found

    def _make_watch(self) -> Watch:
        now = self.now()
        self._later = {key: until for key, until in self._later.items() if until > now}
        accused = dict(self._accused)
        for challenge in self.store.challenges():
            # A challenge that failed accuses no round any longer.
            if challenge.state not in (DisputeState.FAILED, DisputeState.EXPIRED, DisputeState.DROPPED):
                leg = challenge.order_id, challenge.leg
                accused[leg] = min(accused.get(leg, challenge.round), challenge.round)
        return Watch(
            me=self.sender.address,
            secret=self.secret,
            validators=self._validators,
            margin=MARGIN_SECONDS,
            spare=spare_work(self.budget.work, self._done, self.clock),
            checked=self._checked,
            postponed=self._later,
            accused=accused,
            doubtful=self._doubtful,
        )

    # --- recomputing -------------------------------------------------------------------------------

    def _recompute(self, target: Target) -> None:
        closed = target.closed
        began = self.now()
        left = float(closed.challenges_end - self.clock - MARGIN_SECONDS)
        outcome, why, check = "failed", "", None
        try:
            check = self.check(target.on_chain, closed, target.place, left)
        except ClusterError as error:
            outcome, why = "refused", str(error)
        except ChainError:
            raise
        except (Expected, OSError) as error:
            why = str(error)
        if self.stop.is_set():
            return
        if check is not None:
            is_unserved = check.finding.kind is AnswerKind.UNAVAILABLE
            outcome = "unserved" if is_unserved else "right" if check.agrees else "wrong"
            why = check.why
        if outcome in ("refused", "unserved"):
            self._later[closed.key] = self.now() + RETRY_SECONDS
        if outcome not in ("right", "refused"):
            self._doubtful.add(closed.key)
        if outcome != "refused":
            self._checked.setdefault(closed.key, set()).add(target.place)
        if outcome in ("right", "wrong"):
            self._done.append((self.clock, target.work))
            self._done = [(at, work) for at, work in self._done if self.clock - at < HOUR]
            self.meters.count(metrics.WORK, by=target.work)
        self.meters.count(metrics.PLACES, outcome)
        self.meters.observe(metrics.PLACE_SECONDS, self.now() - began)
        self._count(outcome, target.work)
        place = self._describe(closed, target.place)
        said = {"right": "is right", "wrong": "is wrong", "unserved": "was not served", "refused": "is not served now"}
        text = f"{place} {said.get(outcome, 'could not be recomputed')}" + (f": {why}" if why else "")
        self._report(outcome, text, closed, target.place, work=target.work, why=why)
        if check is not None and not check.agrees and (outcome == "wrong" or self.unserved):
            self._accuse(target, check)

    def _count(self, outcome: str, work: int) -> None:
        counts = Counter({outcome: 1})
        self.totals = replace(
            self.totals,
            places=self.totals.places + 1,
            right=self.totals.right + counts["right"],
            wrong=self.totals.wrong + counts["wrong"],
            unserved=self.totals.unserved + counts["unserved"],
            work=self.totals.work + (work if outcome in ("right", "wrong") else 0),
        )

    def _accuse(self, target: Target, check: PlaceCheck) -> None:
        """Record a challenge of a wrong place; in a dry run, report what it would lock and earn."""
        closed = target.closed
        reward = target.reward if check.finding.kind is not AnswerKind.UNAVAILABLE else 0
        if not self.dry_run:
            record = OwnChallenge(
                order_id=closed.order_id,
                leg=closed.leg,
                round=closed.round,
                place=target.place,
                finding=check.finding,
                claim=check.claim,
                largest=reward,
            )
            self.store.put(record)
            self._sends_at = 0.0
            self._pursue()
            return
        self._accused[closed.order_id, closed.leg] = closed.round
        bond = compute_bond(self.client, target.on_chain, closed, check)
        self.totals = replace(
            self.totals,
            would_earn=self.totals.would_earn + reward,
            would_lock=self.totals.would_lock + bond,
        )
        text = f"a challenge would lock {in_assay(bond)}, and earn at most {in_assay(reward)}"
        self._report("would_challenge", text, closed, target.place, bond=bond, reward=reward)

    # --- appeals -----------------------------------------------------------------------------------

    def _appeal(self) -> bool:
        """Recompute what a panel has found wrong, and appeal if it is right; return False if there was nothing to do.

        A ruling is looked at once. It is left alone if a place is not served.
        """
        for ruled in find_rulings(self._orders, self.clock, self._make_watch()):
            if ruled.panel.key in self._looked_at:
                continue
            self._looked_at.add(ruled.panel.key)
            if self._is_right(ruled):
                self._send_appeal(ruled)
            return True
        return False

    def _is_right(self, ruled: RuledRound) -> bool:
        """Return whether all places that a panel found wrong are right, as this watchtower recomputes them."""
        for place in ruled.wrong:
            left = float(ruled.panel.appeal_until - self.clock - MARGIN_SECONDS)
            try:
                check = self.check(ruled.on_chain, ruled.closed, place, left)
            except ChainError:
                raise
            except (Expected, OSError) as error:
                self._report("failed", f"a ruling was not looked at: {error}", ruled.closed, place, why=str(error))
                return False
            if not check.agrees:
                return False
        return True

    def _send_appeal(self, ruled: RuledRound) -> None:
        closed, place = ruled.closed, ruled.wrong[0]
        bond = compute_appeal_bond(self.client, ruled)
        locked = sum(each.bond for each in self.store.challenges() if each.is_live)
        text = f"a panel ruled that {self._describe(closed, place)} is wrong, but it is right"
        if self.dry_run or locked + bond > self.budget.bond:
            text += f"; an appeal would lock {in_assay(bond)} (--bond)"
            self._report("would_appeal", text, closed, place, bond=bond)
            return
        try:
            send_appeal(self.client, self.sender, ruled, bond)
        except TxRefused as refused:
            self._report("not_sent", f"{text}; the appeal was refused: {refused}", closed, place, bond=bond)
            return
        self._report("appealed", f"{text}: appealed with {in_assay(bond)}", closed, place, bond=bond)

    # --- waivers -----------------------------------------------------------------------------------

    def _waive(self) -> None:
        """State that rounds whose places are all right will not be challenged, so that they need not wait."""
        watch = self._make_watch()
        for on_chain in () if self.dry_run else self._orders:
            order_id, leg = on_chain.order.id, on_chain.order.legs
            last = find_waiver(on_chain, self.clock, watch)
            unfair = watch.accused.get((order_id, leg))
            if last is None or last <= self._waived.get((order_id, leg), -1) or (unfair is not None and unfair <= last):
                continue
            self._waived[order_id, leg] = last
            text = f"order {order_id.hex()[:_ID_SHOWN]}: no challenge of leg {leg} up to round {last}"
            try:
                self.sender.send(MsgWaive(sender=self.sender.address, order_id=order_id, leg=leg, round=last))
            except TxRefused as refused:
                _log.info("%s is not waived: %s", text, refused)
                continue
            self.tell("waived", text, order=order_id, leg=leg, round=last)

    # --- own challenges ----------------------------------------------------------------------------

    def _pursue(self) -> None:
        """Send the challenges that are not on the chain yet, as far as the budget allows."""
        if self.dry_run or self.now() < self._sends_at:
            return
        self._sends_at = self.now() + RETRY_SECONDS
        for record in self.store.challenges():
            if record.is_pending:
                self._send(record)

    def _send(self, record: OwnChallenge) -> None:
        on_chain = self.client.query(OrderRequest(record.order_id))
        closed = on_chain.round(record.leg, record.round)
        if closed is None or closed.void or closed.verified or self.client.status().clock >= closed.challenges_end:
            self.store.delete(record)
            if closed is not None:
                text = f"{self._describe(closed, record.place)} is not challenged: the round was decided before"
                self._report("too_late", text, closed, record.place)
            return
        check = PlaceCheck(record.place, record.finding, record.claim, agrees=False)
        bond = compute_bond(self.client, on_chain, closed, check)
        locked = sum(each.bond for each in self.store.challenges() if each.is_live)
        if locked + bond > self.budget.bond:
            text = (
                f"{self._describe(closed, record.place)} is not challenged yet: it needs {in_assay(bond)}, and"
                f" {in_assay(locked)} of {in_assay(self.budget.bond)} are locked (--bond)"
            )
            self._report_once("over_budget", text, closed, record.place, bond=bond, locked=locked)
            return
        try:
            sent = send_challenge(self.client, self.sender, self.secret, closed, check, bond)
        except ChainError as error:
            text = f"{self._describe(closed, record.place)} is not challenged yet: {error}"
            self._report_once("not_sent", text, closed, record.place, bond=bond)
            return
        self.store.put(replace(record, number=sent.key.dispute, state=int(DisputeState.OPEN), bond=sent.bond))
        self.totals = replace(self.totals, challenges=self.totals.challenges + 1)
        text = (
            f"challenge {sent.key.dispute}: {self._describe(closed, record.place)}, with a bond of"
            f" {in_assay(sent.bond)}, for at most {in_assay(record.largest)}"
        )
        self._report(
            "challenged",
            text,
            closed,
            record.place,
            number=sent.key.dispute,
            bond=sent.bond,
            reward=record.largest,
        )

    def _follow(self) -> None:
        """Read what became of the own challenges on the chain."""
        records = self.store.challenges()
        live = [record for record in records if record.is_live]
        for order_id in sorted({record.order_id for record in live}):
            found = {d.key: d for d in self.client.query(DisputesRequest(order_id)).disputes}
            for record in live:
                dispute = found.get(record.round_key.panel(record.number))
                if dispute is None or dispute.is_live:
                    continue
                # The reward comes when the last round of the leg is void, after the ruling.
                if dispute.state is not DisputeState.UPHELD or self._is_over(order_id, record.leg):
                    self._end(record, dispute)
        self._show(self.store.challenges())

    def _is_over(self, order_id: bytes, leg: int) -> bool:
        """Return whether every closed round of a leg is decided."""
        rounds = self.client.query(OrderRequest(order_id)).rounds_of(leg)
        return all(closed.void or closed.verified for closed in rounds)

    def _end(self, record: OwnChallenge, dispute: Dispute) -> None:
        reward, lost = dispute.reward, _lost(dispute)
        self.store.put(replace(record, state=int(dispute.state), reward=reward, burnt=lost))
        self.totals = replace(self.totals, earned=self.totals.earned + reward, lost=self.totals.lost + lost)
        name = dispute.state.name.lower()
        text = f"challenge {record.number} of round {record.round} was {name}: " + (
            f"lost {in_assay(lost)}" if lost else f"earned {in_assay(reward)}"
        )
        values = {"number": record.number, "state": name, "reward": reward, "lost": lost}
        self.tell("ended", text, order=record.order_id, leg=record.leg, round=record.round, **values)
        _log.info("%s", text)

    def _show(self, records: list[OwnChallenge]) -> None:
        states = Counter("pending" if r.is_pending else DisputeState(r.state).name.lower() for r in records)
        self.meters.show_all(metrics.CHALLENGES, {(state,): number for state, number in states.items()})
        self.meters.show(metrics.BOND_LOCKED, sum(record.bond for record in records if record.is_live))
        self.meters.show(metrics.EARNED, sum(record.reward for record in records))
        self.meters.show(metrics.LOST, sum(record.burnt for record in records))

    # --- reports -----------------------------------------------------------------------------------

    def _report(self, event: str, text: str, closed: Round, place: AuditPlace, **values: object) -> None:
        _log.info("%s", text)
        name = self.name(place)
        self.tell(event, text, order=closed.order_id, leg=closed.leg, round=closed.round, place=name, **values)

    def _report_once(self, event: str, text: str, closed: Round, place: AuditPlace, **values: object) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self._report(event, text, closed, place, **values)

    def _describe(self, closed: Round, place: AuditPlace) -> str:
        order = closed.order_id.hex()[:_ID_SHOWN]
        return f"the {self.name(place)} in round {closed.round} of leg {closed.leg} of order {order}"


def _lost(dispute: Dispute) -> int:
    """Return the part of a challenge's bond (uassay) that does not return."""
    return dispute.bond if dispute.state is DisputeState.FAILED else dispute.burnt
