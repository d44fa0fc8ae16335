"""The data of each page as plain values, for the page's template and for its JSON under ``/api``."""

from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import asdict
from itertools import islice, pairwise
from pathlib import Path
from statistics import median
from threading import RLock
from typing import Any, Final

from console import words
from console.blocks import show_block, show_blocks, show_transaction
from console.credentials import show_credentials
from console.duties import duties_of, work_of
from console.errors import ConsoleError, NotThere
from console.find import find
from console.index.records import EARNINGS, OrderRow
from console.known import BLOCKS_SHOWN, NodeSnapshot, NodeState
from console.losses import csv_lines, read_orders, show_losses
from console.node import ConsoleNode
from console.order import OrderPage
from console.programs import show_job
from console.quotes import FIELDS, Ask, quote, read_form
from console.rows import PageQuery, condition_bars, event_row, is_loud, order_row
from console.share import find_share, show_share
from console.story import OrderStory, build_story
from consumer.jobs import read_job
from domain.errors import Expected
from domain.genesis import POWER_REDUCTION
from domain.keys import ShareKey
from domain.market.queries import SimulateMatchResponse
from domain.market.reasons import CloseReason
from domain.market.records import Bid, OrderState
from domain.registry.records import Validator
from pol.job.document import Job
from pol.rules.tiers.table import all_tiers

PAGE: Final = 50
"""Rows per page of a list."""
EVENTS_SHOWN: Final = 15
ROWS_SHOWN: Final = 200
"""Maximum number of bids, providers or shares in a table; pages are often rendered again, so they have to be small."""
WAITING: Final = 1_000
"""Number of open orders whose failed conditions are summed up on the page of the book."""
STORIES_KEPT: Final = 24
"""Number of stories kept in memory, so that a page that is rendered again reads only new events."""
LATE_SECONDS: Final = 60
"""Age of the last block in seconds from which pages show a notice; blocks come every few seconds."""
_FILTERS: Final = {state.name.lower(): state for state in OrderState}
_REASONS: Final = {reason.name.lower(): reason for reason in CloseReason}


def _notice(snapshot: NodeSnapshot, behind: int) -> str:
    """Return a text that explains why pages do not show the chain's current state; empty if they do."""
    status = snapshot.status
    reason = words.cut(snapshot.away, 160)
    known = status is not None and status.height > 0
    if reason and not known:
        return f"Nothing is known yet: {reason}. The page continues when the node answers."
    if reason:
        return f"The node does not answer ({reason}). You see its last data; the page continues when it answers again."
    if not known:
        return f"Waiting for the node{f' at {snapshot.address}' if snapshot.address else ''} …"
    if behind:
        return f"Reading the chain's history: {behind:,} events to go."
    if (age := snapshot.block_age) < LATE_SECONDS:
        return ""
    old = f"The last block is {words.duration(age)} old, and you see the data of that time:"
    if snapshot.catching_up:
        return f"{old} the node is behind, and fetches newer blocks."
    return f"{old} the chain makes no blocks, or the node receives none."


def _no_node(_: object) -> SimulateMatchResponse:
    raise ConsoleError("the console has not connected to a node yet", "try again in a moment")


class ConsolePages:
    """The pages of one console."""

    def __init__(self, known: NodeState, job: Job | None = None) -> None:
        """Create the pages for the data in ``known``, and for the programs of ``job`` if one is given."""
        self._known = known
        self._index = known.index
        self._job = job
        # Directory of a job that is still being built; its programs are shown once it is complete.
        self.job_at: Path | None = None
        # Function that asks the node for a quote; it fails until the console follows a node.
        self.ask: Ask = _no_node
        self.node: ConsoleNode | None = None
        self._lock = RLock()
        self._stories: OrderedDict[bytes, OrderStory] = OrderedDict()
        self._stories_chain: tuple[str, str] = ("", "")

    @property
    def job(self) -> Job | None:
        """The job whose programs are shown; None if the console has no job, or if the job is not built yet."""
        if self._job is None and self.job_at is not None and self.job_at.is_dir():
            try:
                self._job = read_job(self.job_at)
            except Expected:
                # The job is not complete yet.
                return None
        return self._job

    # --- all pages ---------------------------------------------------------------------------

    def head(self) -> dict[str, Any]:
        """Return the data for the head of every page: the chain's height and clock, and a notice if the data is old."""
        snapshot = self._known.snapshot
        status = snapshot.status
        behind = max(0, status.next_event - snapshot.next_event) if status else 0
        return {
            "node": snapshot.address,
            "notice": _notice(snapshot, behind),
            "away": snapshot.away,
            "seen_at": snapshot.seen_at,
            "chain_id": status.chain_id if status else "",
            "height": status.height if status else 0,
            "time_ns": status.time_ns if status else 0,
            "clock": snapshot.clock,
            "clock_most": snapshot.clock_most,
            "solo": bool(status and status.solo),
            "next_event": snapshot.next_event,
            "behind": behind,
        }

    def names(self) -> dict[str, str]:
        """Return the monikers of validators by operator address, as their operators chose them."""
        return {v.operator: v.moniker for v in self._known.snapshot.validators}

    # --- network -----------------------------------------------------------------------------

    def network(self, query: PageQuery) -> dict[str, Any]:
        """Return the data of the network's page: validators, blocks, coins and the last events."""
        snapshot = self._known.snapshot
        blocks = self._index.blocks(BLOCKS_SHOWN)
        proposed = Counter(block.proposer for block in blocks)
        times = [block.time_ns for block in reversed(blocks)]
        gaps = [(after - before) / 1e9 for before, after in pairwise(times)]
        stake = sum(v.stake for v in snapshot.validators)
        alive = dict(snapshot.alive)
        validators = [
            {
                "operator": v.operator,
                "moniker": v.moniker,
                "stake": v.stake,
                "power": v.stake // POWER_REDUCTION,
                "part": v.stake / stake if stake else 0.0,
                "jailed": v.jailed,
                "consensus_jailed": v.operator in snapshot.consensus_jailed,
                "audit_speed": v.audit_speed,
                "endpoint": v.endpoint,
                "alive": alive.get(v.endpoint),
                "proposed": proposed[v.cons_address],
                "orders_settled": v.orders_settled,
                "legs_failed": v.legs_failed,
            }
            for v in _by_stake(snapshot.validators)
        ]
        names = {v.cons_address: v.moniker for v in snapshot.validators}
        pots = {"stakes": sum(v.stake for v in snapshot.validators), **self._index.pots()}
        return {
            "validators": validators,
            "machines": snapshot.machines,
            "providers": sum(1 for p in snapshot.providers if p.admitted),
            "speed": sum(p.capability.speed for p in snapshot.providers if p.capability and p.admitted),
            "bids": len(snapshot.bids),
            "orders": {state.name.lower(): self._index.count_states().get(state, 0) for state in OrderState},
            "mempool": snapshot.mempool,
            "block_seconds": median(gaps) if gaps else 0.0,
            "blocks": {
                "heights": [block.height for block in reversed(blocks)][1:],
                "seconds": [round(gap, 3) for gap in gaps],
            },
            "last_blocks": [
                {
                    "height": block.height,
                    "time_ns": block.time_ns,
                    "proposer": names.get(block.proposer, block.proposer.hex()),
                }
                for block in blocks[:8]
            ],
            "supply": {
                # The rest of the supply is on accounts, is not bonded, or was paid as fees. Events do not have it.
                "accounts": snapshot.supply - sum(pots.values()) if snapshot.supply else 0,
                **pots,
                "all": snapshot.supply,
            },
            "events": [
                event_row(self._index, event)
                for event in islice(filter(is_loud, self._index.latest(400)), EVENTS_SHOWN)
            ],
        }

    # --- orders ------------------------------------------------------------------------------

    def orders(self, query: PageQuery) -> dict[str, Any]:
        """Return one page of the orders that match the query's filters, and the counts of orders by state."""
        state = query.text("state")
        reason = int(_REASONS.get(state, 0))
        wanted = OrderState.CLOSED if reason else _FILTERS.get(state, 0)
        consumer, validator = query.text("consumer"), query.text("validator")
        at = query.number("page", 1, 1)
        filters = {
            "state": int(wanted),
            "reason": reason,
            "consumer": consumer,
            "validator": validator,
        }
        rows, count = self._index.orders(offset=(at - 1) * PAGE, limit=PAGE, **filters)  # type: ignore[arg-type]
        counts, reasons = self._index.count_states(), self._index.count_reasons()
        return {
            "filters": {"state": state, "consumer": consumer, "validator": validator},
            "page": at,
            "pages": max(1, -(-count // PAGE)),
            "count": count,
            "counts": {name: counts.get(each, 0) for name, each in _FILTERS.items()},
            # Numbers of closed orders by the reason why they closed.
            "reasons": {
                name: reasons.get(each, 0) for name, each in _REASONS.items() if each in reasons or name == state
            },
            "orders": self._rows(rows),
        }

    # --- search --------------------------------------------------------------------------------

    def find(self, query: PageQuery) -> dict[str, Any]:
        """Return the hits of a search: orders, blocks, transactions, validators, providers and jobs."""
        text = query.text("q")
        hits = find(self._index, self._known.snapshot, self.node, text) if text else []
        return {"text": text, "hits": hits}

    # --- losses --------------------------------------------------------------------------------

    def losses(self, query: PageQuery) -> dict[str, Any]:
        """Return the data of the page that compares the losses of the query's orders."""
        with self._lock:
            return show_losses(self._index, self.find_order, self.story, query)

    def losses_csv(self, query: PageQuery) -> str:
        """Return the losses of the query's orders as CSV; raise NotThere if the query names no known order."""
        ids, _ = read_orders(self.find_order, query)
        if not ids:
            raise NotThere("No known order is named: use /losses.csv?orders=ID,ID.")
        with self._lock:
            return "".join(csv_lines(self._index, [self.story(order_id) for order_id in ids]))

    # --- blocks --------------------------------------------------------------------------------

    def blocks(self, query: PageQuery) -> dict[str, Any]:
        """Return one page of the list of blocks, the newest first."""
        return show_blocks(self._index, self._known.snapshot, query)

    def block(self, query: PageQuery, height: int) -> dict[str, Any]:
        """Return one block with its transactions and events; raise NotThere if it does not exist."""
        return show_block(self._index, self._known.snapshot, self.node, query, height)

    def transaction(self, query: PageQuery, tx_hash: str) -> dict[str, Any]:
        """Return one transaction with its messages and events; raise NotThere if it is not known."""
        return show_transaction(self._index, self.node, tx_hash)

    def _rows(self, rows: Iterable[OrderRow]) -> list[dict[str, Any]]:
        params = self._known.snapshot.params
        return [order_row(self._index, row, params) for row in rows]

    def find_order(self, text: str) -> bytes:
        """Return the id of the order whose id begins with the hex digits ``text``.

        Raise NotThere if ``text`` has fewer than 4 digits, or if it does not begin exactly one order's id.
        """
        digits = text.lower()
        if not (4 <= len(digits) <= 64 and all(digit in "0123456789abcdef" for digit in digits)):
            raise NotThere("This is not the id of an order: give 4 to 64 hex digits.")
        ids = self._index.find_orders(digits)
        if len(ids) != 1:
            problem = "The id of more than one order begins" if ids else "No known order has an id that begins"
            raise NotThere(f"{problem} with {digits}.")
        return ids[0]

    def story(self, order_id: bytes) -> OrderStory:
        """Return the story of an order up to its newest event; raise NotThere if the order is not known."""
        with self._lock:
            if self._stories_chain != self._index.chain:
                self._stories.clear()
                self._stories_chain = self._index.chain
            # The story is stored again only after it has applied all new events. If one fails, the story is built anew.
            story = self._stories.pop(order_id, None)
            if story is None:
                story = build_story(self._index.events_of(order_id))
                if story is None:
                    raise NotThere("This order is not known here.")
            else:
                story.follow(self._index.events_of(order_id, story.next))
            self._stories[order_id] = story
            while len(self._stories) > STORIES_KEPT:
                self._stories.popitem(last=False)
            return story

    def order(self, query: PageQuery, order_id: bytes) -> dict[str, Any]:
        """Return the data of one order's page."""
        story, snapshot = self.story(order_id), self._known.snapshot
        with self._lock:
            page = OrderPage(self._index, self.names(), len(snapshot.bids), snapshot.params, snapshot.clock)
            return page.show(query, story)

    def share(self, query: PageQuery, key: ShareKey) -> dict[str, Any]:
        """Return the data of a share's page; raise NotThere if the share is not known."""
        story, traces = self.story(key.order_id), self._index.traces(key.order_id, key.leg)
        with self._lock:
            share = find_share(story, key, traces, self.names())
            if share is None:
                raise NotThere("This share is not known here.")
            return show_share(self._index, share)

    # --- the book ----------------------------------------------------------------------------

    def book(self, query: PageQuery) -> dict[str, Any]:
        """Return the data of the order book's page: bids, free capacity by price, a quote, and open orders.

        For each condition, the page also has the number of bids that failed this condition in the auctions of open
        orders.
        """
        bids = sorted(self._known.snapshot.bids, key=lambda bid: (bid.offer.price, bid.id))
        depth: list[dict[str, int]] = []
        free = 0
        for bid in bids:
            free += bid.free
            if depth and depth[-1]["price"] == bid.offer.price:
                depth[-1]["free"] = free
            else:
                depth.append({"price": bid.offer.price, "free": free})
        asked = "rounds" in query.values
        rows, count = self._index.orders(state=int(OrderState.OPEN), limit=WAITING)
        reasons: Counter[str] = Counter()
        for row in rows:
            reasons.update(dict(row.unmatched))
        return {
            "bids": [self._bid(bid) for bid in bids],
            "depth": depth,
            "free": free,
            "tiers": [{"name": tier.name} | asdict(tier.description) for tier in all_tiers()],
            "form": read_form(query, None if asked else self.job),
            "form_job": self.job.document.name if self.job and not asked else "",
            "fields": [
                {
                    "name": field.name,
                    "label": field.label,
                    "unit": field.unit,
                    "first": field.first,
                }
                for field in FIELDS
            ],
            "quote": quote(self.ask, self._known.snapshot.params, query),
            "open_orders": count,
            "waiting": self._rows(rows[:PAGE]),
            "filters": condition_bars(tuple(reasons.items()), max(reasons.values(), default=0)),
        }

    def _bid(self, bid: Bid) -> dict[str, Any]:
        offer = bid.offer
        return {
            "id": bid.id.hex(),
            "validator": bid.validator,
            "price": offer.price,
            "free": bid.free,
            "capacity": bid.capacity,
            "slots": offer.slots,
            "slot_speed": offer.slot_speed,
            "device_class": offer.device_class,
            "memory": offer.memory,
            "regions": list(offer.regions),
            "tiers": list(offer.tiers),
            "providers_bps": offer.providers_bps,
            "expires_at": bid.expires_at,
        }

    # --- a job ---------------------------------------------------------------------------------

    def show_job(self, query: PageQuery) -> dict[str, Any]:
        """Return the layers of one of the job's programs; raise NotThere if the console was started without a job."""
        if self.job is None:
            raise NotThere("The console has no job: start the console with --job DIRECTORY.")
        return show_job(self.job, query.text("program", 10))

    # --- validators and providers ------------------------------------------------------------

    def credentials(self, query: PageQuery) -> dict[str, Any]:
        """Return policies about evidence, credentials, bans, and requests that panels judge."""
        return show_credentials(self._index, self._known.snapshot.clock, ROWS_SHOWN)

    def members(self, query: PageQuery) -> dict[str, Any]:
        """Return validators and providers with their records and earnings."""
        snapshot = self._known.snapshot
        earned, shares = self._index.earnings(), self._index.providers()
        alive, seen = dict(snapshot.alive), self._index.seen()
        cluster = Counter(p.validator for p in snapshot.providers if p.admitted)
        validators = [
            {
                "operator": v.operator,
                "moniker": v.moniker,
                "stake": v.stake,
                "jailed": v.jailed,
                "consensus_jailed": v.operator in snapshot.consensus_jailed,
                "alive": alive.get(v.endpoint),
                "endpoint": v.endpoint,
                "audit_speed": v.audit_speed,
                "providers": cluster[v.operator],
                "orders_settled": v.orders_settled,
                "legs_failed": v.legs_failed,
                "audits_answered": v.audits_answered,
                "audits_missed": v.audits_missed,
                "earned": sum(earned.get(v.operator, {}).values()),
            }
            for v in _by_stake(snapshot.validators)
        ]
        providers = [
            {
                "address": p.address,
                "validator": p.validator,
                "admitted": p.admitted,
                "speed": p.capability.speed if p.capability else 0,
                "memory": p.capability.memory if p.capability else 0,
                "bandwidth": p.capability.bandwidth if p.capability else 0,
                "device_class": p.capability.device_class if p.capability else "",
                "certified_until": p.capability.expires_at if p.capability else 0,
                "accepted": p.shares_accepted,
                "rejected": p.shares_rejected,
                "wrong": shares[p.address].wrong if p.address in shares else 0,
                "seen_height": seen.get(p.address, 0),
                "seen_ns": self._index.block_time(seen.get(p.address, 0)),
                "earned": sum(earned.get(p.address, {}).values()),
            }
            for p in sorted(snapshot.providers, key=lambda p: (-p.shares_accepted, p.address))
        ]
        return {"validators": validators, "providers": providers}

    def member(self, query: PageQuery, address: str) -> dict[str, Any]:
        """Return the data of a validator's, provider's or consumer's page: record, earnings, orders and current tasks.

        Raise NotThere if nothing is known of the address.
        """
        snapshot = self._known.snapshot
        members = self.members(query)
        validator = next((v for v in members["validators"] if v["operator"] == address), None)
        provider = next((p for p in members["providers"] if p["address"] == address), None)
        ordered, count = self._index.orders(consumer=address, limit=PAGE)
        paid, locked = self._index.spent(address)
        served, served_count = self._index.orders(validator=address, limit=PAGE)
        earned = self._index.earnings().get(address, {})
        account = self._account(address)
        has_coins = account is not None and (account["balance"] or account["bond"])
        if not (validator or provider or ordered or served or earned or has_coins):
            raise NotThere("This address is not known here.")
        duties, work = self._tasks(address)
        height, action = self._index.last_seen(address)
        return {
            "account": account,
            "seen_height": height,
            "seen_ns": self._index.block_time(height),
            "seen_by": action,
            "work": work,
            "address": address,
            "validator": validator,
            "provider": provider,
            "cluster": [p for p in members["providers"] if p["validator"] == address],
            "earned": {kind: earned.get(kind, 0) for kind in EARNINGS if earned.get(kind)},
            "earned_of": [
                {"order": order_id.hex(), "amount": amount} for order_id, amount in self._index.earned_of(address, 20)
            ],
            "ordered": self._rows(ordered),
            "ordered_count": count,
            "paid": paid,
            "locked": locked,
            "served": self._rows(served),
            "served_count": served_count,
            "bids": [self._bid(bid) for bid in snapshot.bids if bid.validator == address],
            "duties": duties,
        }

    def _account(self, address: str) -> dict[str, Any] | None:
        """Return the balance and the bond account of an address; None if the node does not answer."""
        status = self._known.snapshot.status
        if self.node is None or status is None or self._known.snapshot.away:
            return None
        account = self.node.account(address, status.height)
        if account is None:
            return None
        withdrawing = sum(withdrawal.amount for withdrawal in account.bond.withdrawals)
        return {
            "balance": account.balance,
            "bond_free": account.bond.free,
            "bond_withdrawing": withdrawing,
            "bond": account.bond.free + withdrawing,
        }

    def _tasks(self, address: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the tasks of an address in current orders, the earliest deadline first, and its current shares."""
        with self._lock:
            return self._find_tasks(address)

    def _find_tasks(self, address: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        tasks = []
        work = []
        for state in (OrderState.MATCHED, OrderState.RUNNING, OrderState.PROVEN):
            rows, _ = self._index.orders(state=int(state), limit=100)
            for row in rows:
                story = self.story(row.order_id)
                tasks += [
                    {"order": row.order_id.hex(), "what": what, "until": until}
                    for what, until in duties_of(story, address)
                ]
                work += [
                    {
                        **share,
                        "job_name": self._index.job_name(row.job_id),
                        "time_ns": self._index.block_time(share["height"]),
                    }
                    for share in work_of(story, address)
                ]
        return sorted(tasks, key=lambda task: task["until"]), work[:ROWS_SHOWN]


def _by_stake(validators: Iterable[Validator]) -> list[Validator]:
    return sorted(validators, key=lambda v: (-v.stake, v.moniker, v.operator))
