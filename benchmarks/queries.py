"""Balances per second that a node answers over gRPC and REST while it makes blocks, and the time of each answer.

The node is a process of its own, with a solo block maker and the REST gateway. The callers are threads of this process,
on the same cores. The last rows show how the time between two blocks grows while the node answers.
"""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from multiprocessing.connection import Connection
from threading import local
from typing import Any

import grpc
import requests
from cosmpy.protos.cosmos.bank.v1beta1.query_pb2 import QueryBalanceRequest

from benchmarks.figures import Figures, Row
from chain.app.application import AppConfig, Application
from chain.app.grpc_server import GrpcServer
from chain.app.interfaces import BlockWatcher, CommittedBlock
from chain.app.rest.process import RestProcess
from chain.app.services.table import Services
from chain.app.solo import SoloEngine
from chain.app.storage import Storage
from domain.block import TxResult
from domain.genesis import DENOM, Genesis, GenesisAccount, GenesisValidator
from domain.ledger.records import Coin
from domain.params import Params
from host.addresses import HostPort
from host.daemon import calm_collector
from wire.keys import Key

NAME = "queries"
SECONDS = 5.0
BLOCK_SECONDS = 0.25
ACCOUNTS = 1_000
CALLERS = (1, 16)
_TIME_NS = 1_700_000_000 * 10**9
_PATH = "/cosmos.bank.v1beta1.Query/Balance"

Call = Callable[[str], None]
"""A function that asks for the balance of an address."""


class _Intervals(BlockWatcher):
    """The times between blocks since they were last read."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._last = 0.0

    def committed(self, before: CommittedBlock, block: CommittedBlock, results: Sequence[TxResult]) -> None:
        """Record the time since the last block."""
        now = time.perf_counter()
        if self._last:
            self.seconds.append(now - self._last)
        self._last = now


def run() -> Figures:
    """Measure each way with one caller and with several."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    node = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=False)
    node.start()
    try:
        address, url = ours.recv()
        addresses = [key.address for key in _keys()]
        rows: list[Row] = []
        blocks: list[Row] = []
        quiet = _block_row("between two blocks, no calls", ours, time.sleep, SECONDS)
        with grpc.insecure_channel(address) as channel:
            ways: dict[str, Call] = {"gRPC": _grpc_call(channel), "REST": _rest_call(url)}
            for way, call in ways.items():
                for callers in CALLERS:
                    case = f"{way}, {callers} at once"
                    load = partial(_measure, rows, case, call, addresses, callers)
                    blocks.append(_block_row(f"between two blocks, {case}", ours, load, SECONDS, quiet.value))
        ours.send("stop")
    finally:
        node.join(30)
        node.kill()
    return Figures(NAME, [*rows, quiet, *blocks])


def _measure(rows: list[Row], case: str, call: Call, addresses: list[str], callers: int, seconds: float) -> None:
    """Add the row of one way: answers per second, and the times of half and of 95 % of the answers."""
    for address in addresses[:20]:
        call(address)
    ends = time.perf_counter() + seconds

    def ask(number: int) -> list[float]:
        times = []
        at = number
        while (began := time.perf_counter()) < ends:
            call(addresses[at % len(addresses)])
            times.append(time.perf_counter() - began)
            at += callers
        return times

    with ThreadPoolExecutor(callers) as pool:
        times = sorted(each for part in pool.map(ask, range(callers)) for each in part)
    columns = {"p50 ms": 1000 * times[len(times) // 2], "p95 ms": 1000 * times[len(times) * 95 // 100]}
    rows.append(Row(case=case, value=len(times) / seconds, unit="1/s", columns=columns))


def _block_row(
    case: str, node: Connection, load: Callable[[float], None], seconds: float, baseline: float | None = None
) -> Row:
    """Return the row of the time between two blocks (the longest of 95 %) under a load."""
    node.send("read")
    node.recv()
    load(seconds)
    node.send("read")
    intervals = sorted(node.recv())
    return Row(case=case, value=1000 * intervals[len(intervals) * 95 // 100], unit="ms", baseline=baseline)


def _grpc_call(channel: grpc.Channel) -> Call:
    method: Any = channel.unary_unary(_PATH)
    return lambda address: method(QueryBalanceRequest(address=address, denom=DENOM).SerializeToString(), timeout=20)


def _rest_call(url: str) -> Call:
    sessions = local()

    def call(address: str) -> None:
        if not hasattr(sessions, "own"):
            sessions.own = requests.Session()
        path = f"{url}/cosmos/bank/v1beta1/balances/{address}/by_denom?denom={DENOM}"
        sessions.own.get(path, timeout=20).raise_for_status()

    return call


def _serve(parent: Connection) -> None:
    """Run the node until the parent sends ``stop``; answer ``read`` with the times between blocks."""
    calm_collector()
    storage = Storage.temporary()
    intervals = _Intervals()
    app = Application(storage, AppConfig(solo=True), watcher=intervals)
    engine = SoloEngine(app, _genesis(), genesis_time_ns=_TIME_NS)
    server = GrpcServer(Services(app, engine), "127.0.0.1:0")
    server.start()
    rest = RestProcess(HostPort("127.0.0.1", 0), HostPort.parse(server.address), "*")
    requests.get(f"http://{rest.address}/assay/registry/v1/status", timeout=60).raise_for_status()
    engine.start(BLOCK_SECONDS)
    parent.send((server.address, f"http://{rest.address}"))
    while parent.recv() == "read":
        measured, intervals.seconds = intervals.seconds, []
        parent.send(measured)
    rest.close()
    server.close()
    engine.stop()
    storage.close()


def _keys() -> list[Key]:
    return [Key(sha256(b"bench %d" % number).digest()) for number in range(ACCOUNTS)]


def _genesis() -> Genesis:
    keys = _keys()
    accounts = tuple(GenesisAccount(key.address, (Coin(DENOM, 10**9),)) for key in keys)
    validator = GenesisValidator(
        operator=keys[0].address, moniker="one", cons_key=b"\x05" * 32, beacon_key=keys[0].pub_key, stake=10**7
    )
    return Genesis(chain_id="assay-bench", denom=DENOM, params=Params(), accounts=accounts, validators=(validator,))
