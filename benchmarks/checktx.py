"""The rate of CheckTx over the ABCI socket, with real signed transfers and all checks.

The baseline is the rate of one process that only verifies signatures (bare checks).

The server runs in this process. The client runs in another process and sends as fast as the socket accepts. The rate of
two bare checks in parallel shows whether the second core is a full core or a hardware thread of the first core.
"""

import multiprocessing
import socket
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from threading import Thread
from time import perf_counter
from typing import Any

from coincurve import PublicKey
from coincurve.ecdsa import cdata_to_der, deserialize_compact
from cosmpy.protos.tendermint.abci.types_pb2 import (
    Request,
    RequestCheckTx,
    RequestFlush,
    Response,
    ResponseFlush,
)

from benchmarks.figures import Figures, Row
from chain.app.abci_methods import Methods
from chain.app.abci_query import AbciQueries
from chain.app.abci_server import AbciServer, frame, split_frames
from chain.app.application import AppConfig, Application
from chain.app.services.table import Services
from chain.app.storage import Storage
from chain.app.verifier import start_verifier
from domain.genesis import DENOM, Genesis, GenesisAccount, GenesisValidator
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.params import Params
from host.daemon import calm_collector
from wire.keys import Key, SignatureVerifier
from wire.tx import build_tx

NAME = "checktx"
ACCOUNTS = 1_000
PER_ACCOUNT = 9  # so that less than half of a mempool waits, beyond which only duties are accepted
REPEATS = 7
CHAIN_ID = "assay-bench"
_TIME_NS = 1_700_000_000 * 10**9
_RECHECK = 1


def run() -> Figures:
    """Measure several times; return the table of the repeats with the median ratio, and the extreme ratios."""
    keys = _keys()
    txs = _transfers(keys)
    bare, twice, new, recheck = zip(*(_once(keys, txs) for _ in range(REPEATS)), strict=True)
    return Figures(
        NAME,
        [
            Row(case="coincurve verify, bare", value=median(bare), unit="1/s", baseline=None),
            _row("the same in two processes at once", twice, bare),
            _row("CheckTx, pipelined over the socket", new, bare),
            _row("recheck, pipelined over the socket", recheck, bare),
        ],
    )


def _keys() -> list[Key]:
    return [Key(sha256(b"bench %d" % number).digest()) for number in range(ACCOUNTS)]


def _once(keys: list[Key], txs: list[bytes]) -> tuple[float, float, float, float]:
    """Return four rates per second: bare checks, bare checks in two processes, CheckTx, and rechecks."""
    before = _bare_verify_rate(keys)
    twice = _two_at_once(keys)
    with tempfile.TemporaryDirectory() as directory, start_verifier() as verifier:
        new, recheck = _measure(verifier, keys, txs[:ACCOUNTS], txs[ACCOUNTS:], Path(directory))
    # The bare rate is measured before and after CheckTx, because the speed of a shared machine drifts.
    return (before + _bare_verify_rate(keys)) / 2, twice, new, recheck


def _row(case: str, rates: Sequence[float], bare: Sequence[float]) -> Row:
    """Return the row of the repeat with the median ratio of rate to bare rate."""
    ranked = sorted(zip(rates, bare, strict=True), key=lambda pair: pair[0] / pair[1])
    lowest, middle, highest = ranked[0], ranked[len(ranked) // 2], ranked[-1]
    columns = {"lowest": lowest[0] / lowest[1], "highest": highest[0] / highest[1]}
    return Row(case=case, value=middle[0], unit="1/s", baseline=middle[1], columns=columns)


def _transfers(keys: list[Key]) -> list[bytes]:
    """Return all transfers: first each account's first transfer, for block 1, then each account's second, and so on."""
    return [
        build_tx(
            (MsgSend(key.address, keys[number - 1].address, (Coin(DENOM, 1 + sequence),)),),
            key,
            chain_id=CHAIN_ID,
            account_number=number,
            sequence=sequence,
            fee=(Coin(DENOM, 1_000),),
            gas_limit=100_000,
        )
        for sequence in range(1 + PER_ACCOUNT)
        for number, key in enumerate(keys)
    ]


def _bare_verify_rate(keys: list[Key]) -> float:
    """Return the number of signatures that coincurve's public interface verifies per second."""
    message = b"m" * 200
    cases = [(PublicKey(key.pub_key), cdata_to_der(deserialize_compact(key.sign(message)))) for key in keys]
    rounds = 5
    start = perf_counter()
    for _ in range(rounds):
        for public, signature in cases:
            if not public.verify(signature, message):
                raise RuntimeError("a good signature does not verify")
    return rounds * len(cases) / (perf_counter() - start)


def _two_at_once(keys: list[Key]) -> float:
    """Return the number of signatures that two processes together verify per second."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    other = multiprocessing.get_context("spawn").Process(target=verify_beside, args=(there,))
    other.start()
    here.recv()
    here.send(None)
    ours = _bare_verify_rate(keys)
    theirs: float = here.recv()
    other.join()
    return ours + theirs


def verify_beside(other: Connection) -> None:
    """Run the second process: verify signatures when ``other`` asks for it, and send the rate."""
    keys = _keys()
    other.send(None)
    other.recv()
    other.send(_bare_verify_rate(keys))


def _measure(
    verifier: SignatureVerifier,
    keys: list[Key],
    first: list[bytes],
    txs: list[bytes],
    directory: Path,
) -> tuple[float, float]:
    calm_collector()
    storage = Storage(directory / "db")
    app = _started(storage, verifier, keys, first)
    methods = Methods(app, AbciQueries(app, Services(app).call))
    server = AbciServer(methods.table, directory / "abci.sock", prefetch=app.prefetch)
    server.start()
    here, there = multiprocessing.get_context("spawn").Pipe()
    client = multiprocessing.get_context("spawn").Process(target=send_all, args=(server.path, txs, there))
    client.start()
    new, recheck = here.recv()
    client.join()
    server.close()
    storage.close()
    return len(txs) / new, len(txs) / recheck


def _started(storage: Storage, verifier: SignatureVerifier, keys: list[Key], first: list[bytes]) -> Application:
    """Return an application whose accounts have each sent a transaction, as most accounts of a running chain have."""
    operator = keys[0].address
    genesis = Genesis(
        chain_id=CHAIN_ID,
        denom=DENOM,
        params=Params(),
        accounts=tuple(GenesisAccount(key.address, (Coin(DENOM, 10**12),)) for key in keys),
        validators=(
            GenesisValidator(
                operator=operator,
                moniker="bench",
                cons_key=b"\x01" * 32,
                beacon_key=keys[0].pub_key,
                stake=10**9,
            ),
        ),
    )
    app = Application(storage, AppConfig(), verifier)
    app.init_chain(genesis, _TIME_NS)
    done = app.finalize_block(1, _TIME_NS + 10**9, b"\x01" * 32, bytes(20), first)
    if any(result.code for result in done.result.tx_results):
        raise RuntimeError("block 1 refused a transfer")
    app.commit()
    return app


def send_all(path: Path, txs: list[bytes], result: Connection) -> None:
    """Run the client: send all transactions as new, then as rechecks, and report the seconds of both to ``result``."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        seconds = []
        for kind in (0, _RECHECK):
            requests = [Request(check_tx=RequestCheckTx(tx=tx, type=kind)) for tx in txs]
            data = b"".join(map(frame, requests)) + frame(Request(flush=RequestFlush()))
            start = perf_counter()
            sender = Thread(target=connection.sendall, args=(data,))
            sender.start()
            received = _receive(connection)
            seconds.append(perf_counter() - start)
            sender.join()
            answers = _answers(received)
            if len(answers) != len(txs):
                raise RuntimeError(f"{len(answers)} answers to {len(txs)} transactions")
            refused = next((one for one in answers if one.check_tx.code), None)
            if refused is not None and kind == 0:
                raise RuntimeError(f"a good transaction was refused: {refused.check_tx.log}")
        result.send(seconds)


def _receive(connection: socket.socket) -> bytearray:
    """Receive all bytes up to the answer to Flush. They are not decoded here, because that is CometBFT's work."""
    end = frame(Response(flush=ResponseFlush()))
    received = bytearray()
    while not received.endswith(end):
        received += connection.recv(1 << 20)
    return received


def _answers(received: bytearray) -> list[Any]:
    """Decode the responses in the order of the requests; leave out the response to Flush."""
    frames, _, _ = split_frames(received)
    return [Response.FromString(data) for data in frames[:-1]]
