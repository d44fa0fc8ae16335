"""The follower of a node. It stores the node's events in the index, and queries data that is not in events.

The data that is not in events are the lists of validators, providers and bids, the parameters, and the times of blocks.

One thread sends all queries, so the load on the node does not depend on the number of open pages. If the node stops
answering, the follower waits until it answers again. Meanwhile, pages show the last known data and its age.
"""

import logging
import socket
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from threading import Event, Thread
from typing import Final

from chain.client.away import closed_at, is_away
from chain.client.client import ChainClient
from chain.client.errors import ChainError, ErrorKind
from console.comet import CONNECT_SECONDS, Comet
from console.index.records import BlockRow
from console.index.writing import Gap
from console.known import BLOCKS_SHOWN, NodeState
from domain.codec import encode
from domain.limits import EVENTS_LIMIT_MAX, QUERY_LIMIT_MAX
from domain.market.queries import BidsRequest
from domain.market.records import Bid
from domain.node.queries import EventsRequest, StatusResponse
from domain.registry.queries import ProvidersRequest, ValidatorsRequest
from domain.registry.records import Provider
from host.addresses import HostPort

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.4
MEMBERS_SECONDS: Final = 4.0
"""Maximum age in seconds of the lists of validators, providers and bids."""
PROBE_SECONDS: Final = 30.0
BLOCKS_KEPT: Final = 2_000
_BLOCKS_A_TURN: Final = 200
_LISTED_MAX: Final = 10_000
"""Maximum number of providers, and of bids, that are kept. Longer lists would be of no use on a page."""


class Follower:
    """A thread that keeps an index and a snapshot up to date with a node until it is closed."""

    def __init__(self, known: NodeState, *, probe: bool = True) -> None:
        """Create a follower without a node; with ``probe`` it also tries to connect to validators' endpoints."""
        self._known = known
        self._index = known.index
        self._probe = probe
        self._comet = Comet("")
        self._stop = Event()
        self._thread: Thread | None = None
        self._members_at = self._probed_at = 0.0
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="console-probe")

    def follow(self, address: str, rpc: str = "") -> None:
        """Start to follow the node at ``address``; ``rpc`` is the URL of its CometBFT, empty if not known."""
        self._comet = Comet(rpc)
        self._known.show(address=address)
        self._thread = Thread(target=self._run, args=(address,), name="console-follower", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop following."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._pool.shutdown(cancel_futures=True)
        self._comet.close()

    def _run(self, address: str) -> None:
        with ChainClient(address) as client, closed_at(self._stop, client):
            while not self._stop.is_set():
                more = False
                try:
                    more = self._turn(client)
                except ChainError as error:
                    if self._stop.is_set():
                        return
                    self._lost(error.reason, logged=not is_away(error))
                except (ValueError, ArithmeticError, LookupError, sqlite3.Error) as error:
                    # The node may be of another version or send wrong data, or the disk may be full.
                    # Pages keep the last data.
                    self._lost(f"its answers cannot be stored: {error}", logged=True)
                except Gap as gap:
                    log.warning("the index is built again: %s", gap)
                    self._index.begin("", "")
                if not more:
                    self._stop.wait(POLL_SECONDS)

    def _lost(self, reason: str, *, logged: bool) -> None:
        if self._known.snapshot.away != reason:
            if logged:
                log.warning("%s", reason)
            self._known.show(away=reason)

    def _turn(self, client: ChainClient) -> bool:
        """Query the node once for all new data; return True if the node has more events to read."""
        status = client.status()
        self._check_chain(client, status)
        since = self._index.next
        page = client.query(EventsRequest(since, EVENTS_LIMIT_MAX))
        if page.events:
            self._index.add(page.events)
        elif page.next > since:
            raise Gap(f"event {since} is missing, although the node has events up to {page.next - 1}")
        moved = self._known.snapshot.status is None or status.height != self._known.snapshot.status.height
        changes: dict[str, object] = {
            "status": status,
            "away": "",
            "seen_at": time.time(),
        }
        more = self._index.next < page.next
        now = time.monotonic()
        news = moved or bool(page.events) or bool(self._known.snapshot.away)
        if not more:
            if moved:
                waiting = self._comet.ask("num_unconfirmed_txs", "total")
                changes["mempool"] = int(waiting) if str(waiting).isdecimal() else None
            if moved or page.events:
                self._read_blocks(client, status)
            due = now - self._members_at > MEMBERS_SECONDS
            if due or any(not event.type.startswith(("share", "panel")) for event in page.events):
                changes |= self._members(client)
                self._members_at = now
                news = True
            if due:
                catching_up = self._comet.ask("status", "sync_info", "catching_up")
                changes["catching_up"] = catching_up is True
        if news:
            self._known.show(**changes)
        if self._probe and now - self._probed_at > PROBE_SECONDS and self._known.snapshot.validators:
            self._probed_at = now
            self._probe_endpoints()
        return more

    def _check_chain(self, client: ChainClient, status: StatusResponse) -> None:
        """Clear the index if its events are from another chain than the node's chain, even if both chains have the same
        id.
        """
        chain_id, first = self._index.chain
        if chain_id == status.chain_id and first and self._index.next <= status.next_event:
            if self._known.snapshot.status is not None and not self._known.snapshot.away:
                return
            if first == _fingerprint(client):
                return
        if (chain_id, first) != (status.chain_id, "") or self._index.next > status.next_event:
            self._index.begin(status.chain_id, "")
        fingerprint = _fingerprint(client)
        if fingerprint:
            self._index.begin(status.chain_id, fingerprint)

    def _members(self, client: ChainClient) -> dict[str, object]:
        providers: list[Provider] = []
        while len(providers) < _LISTED_MAX:
            last = providers[-1].address if providers else ""
            listed = client.query(ProvidersRequest("", QUERY_LIMIT_MAX, last)).providers
            providers += listed
            if len(listed) < QUERY_LIMIT_MAX:
                break
        bids: list[Bid] = []
        while len(bids) < _LISTED_MAX:
            page = client.query(BidsRequest("", QUERY_LIMIT_MAX, bids[-1].id if bids else b"")).bids
            bids += page
            if len(page) < QUERY_LIMIT_MAX:
                break
        members = client.query(ValidatorsRequest())
        return {
            "validators": members.validators,
            "consensus_jailed": members.consensus_jailed,
            "params": client.params(),
            "supply": _supply(client),
            "providers": tuple(providers),
            "bids": tuple(bids),
        }

    def _read_blocks(self, client: ChainClient, status: StatusResponse) -> None:
        """Read the times of the newest blocks, then of blocks that have events, the newest first."""
        known = {block.height for block in self._index.blocks(BLOCKS_SHOWN)}
        newest = range(status.height, max(0, status.height - BLOCKS_SHOWN), -1)
        wanted = [height for height in newest if height not in known]
        wanted += [h for h in self._index.unknown_blocks(_BLOCKS_A_TURN) if h not in wanted]
        blocks = []
        for height in wanted[:_BLOCKS_A_TURN]:
            try:
                head = client.block(height)
            except ChainError as error:
                if error.kind is not ErrorKind.NOT_FOUND:
                    raise
                # A node that started from a snapshot has no older blocks. Time 0 prevents a second query for the block.
                blocks.append(BlockRow(height, 0, b""))
                continue
            blocks.append(BlockRow(head.height, head.time_ns, head.proposer))
        self._index.add_blocks(blocks)
        if status.height % BLOCKS_KEPT == 0:
            self._index.forget_blocks(status.height - BLOCKS_KEPT)

    def _probe_endpoints(self) -> None:
        """Start a thread that checks which validators' endpoints accept connections."""
        endpoints = sorted({v.endpoint for v in self._known.snapshot.validators if v.endpoint})

        def look() -> None:
            alive = tuple(zip(endpoints, self._pool.map(_answers, endpoints), strict=True))
            if not self._stop.is_set():
                self._known.show(alive=alive)

        Thread(target=look, name="console-look", daemon=True).start()


def _supply(client: ChainClient) -> int:
    try:
        return client.supply()
    except ChainError as error:
        if is_away(error):
            raise
        # A node of an older version does not have this query.
        return 0


def _answers(endpoint: str) -> bool:
    try:
        where = HostPort.parse(endpoint)
        with socket.create_connection((where.host, where.port), CONNECT_SECONDS):
            return True
    except (OSError, ValueError):
        return False


def _fingerprint(client: ChainClient) -> str:
    """Return the hash of the chain's first event, which differs between chains of the same id; empty if the chain has
    no event.
    """
    events = client.query(EventsRequest(1, 1)).events
    return sha256(encode(events[0])).hexdigest() if events else ""
