"""A state of 1,000,000 accounts: the start of a node, its memory, and a block of 5,000 transfers among them.

The state is made by InitChain and block 1 in a process of its own; then another process starts from its database, as a
node does after a restart. The baseline of the blocks is the time of bare signature checks of the same transfers. A
block's time includes the root and Commit. CheckTx has checked its transfers before, as those of a node that has seen
them; the last row is a block that the node never saw.
"""

import multiprocessing
import resource
import tempfile
from collections.abc import Callable, Sequence
from hashlib import sha256
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from random import Random
from statistics import median
from time import perf_counter, time

from coincurve import PublicKey
from coincurve.ecdsa import cdata_to_der, deserialize_compact

from benchmarks.figures import Figures, Row
from chain.app.application import AppConfig, Application
from chain.app.storage import Storage
from chain.app.verifier import start_verifier
from domain.genesis import DENOM, Genesis, GenesisAccount, GenesisValidator
from domain.ledger.messages import MsgSend
from domain.ledger.records import Coin
from domain.params import Params
from host.daemon import calm_collector
from wire.address import address_of
from wire.keys import Key
from wire.tx import build_tx

NAME = "accounts"
ACCOUNTS = 1_000_000
TRANSFERS = 5_000
REPEATS = 3
CHAIN_ID = "assay-bench"
INFO_SECONDS, MEMORY_GB, BLOCK_RATIO = 5.0, 1.0, 3.0
"""Goals: the first Info, the memory of the node, and a block as a multiple of its bare signature checks."""
_TIME_NS = 1_700_000_000 * 10**9


def run() -> Figures:
    """Make the state, start from it, and run the blocks."""
    with tempfile.TemporaryDirectory(prefix="assay-accounts-") as folder:
        path = Path(folder) / "db"
        maker, made = _start(make_state, path)
        made_seconds, maker_memory = made.recv()
        maker.join()
        began = time()
        node, said = _start(run_node, path)
        info = said.recv() - began
        idle = said.recv()
        bare, seen, unseen, memory = said.recv()
        node.join()
    where = f"among {ACCOUNTS:,} accounts"
    return Figures(
        NAME,
        [
            Row("InitChain, block 1 and Commit", made_seconds, "s", columns={"memory GB": maker_memory}),
            Row(case="start of the process until the first Info", value=info, unit="s", baseline=INFO_SECONDS, goal=1),
            Row(case="memory after the start", value=idle, unit="GB", baseline=MEMORY_GB, goal=1),
            Row(case="most memory while it ran the blocks", value=memory, unit="GB", baseline=MEMORY_GB, goal=1),
            Row(f"{TRANSFERS:,} bare signature checks", 1_000 * median(bare), "ms"),
            _row(f"block of {TRANSFERS:,} transfers {where}", seen, bare),
            _row("the same block, never seen before", unseen, bare),
        ],
    )


def _start(what: Callable[[Path, Connection], None], path: Path) -> tuple[SpawnProcess, Connection]:
    """Start a process; return it, and the end of a pipe from it, which closes when it ends."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    process = spawn.Process(target=what, args=(path, theirs))
    process.start()
    theirs.close()
    return process, ours


def _row(case: str, blocks: Sequence[float], bare: Sequence[float]) -> Row:
    """Return the row of the repeat with the median ratio to the bare checks beside it."""
    ranked = sorted(zip(blocks, bare, strict=True), key=lambda pair: pair[0] / pair[1])
    value, baseline = ranked[len(ranked) // 2]
    columns = {"lowest": ranked[0][0] / ranked[0][1], "highest": ranked[-1][0] / ranked[-1][1]}
    return Row(case=case, value=1_000 * value, unit="ms", baseline=1_000 * baseline, goal=BLOCK_RATIO, columns=columns)


def _keys() -> list[Key]:
    return [Key(sha256(b"account %d" % number).digest()) for number in range(TRANSFERS)]


def _address(number: int) -> str:
    """Return the address of an account that only receives."""
    return address_of(b"\x02" + sha256(b"receiver %d" % number).digest())


def make_state(path: Path, parent: Connection) -> None:
    """Make a state of ``ACCOUNTS`` accounts at block 1; send the seconds and the memory (GB)."""
    calm_collector()
    keys = _keys()
    addresses = [key.address for key in keys] + [_address(number) for number in range(ACCOUNTS - TRANSFERS)]
    coins = (Coin(DENOM, 10**9),)
    genesis = Genesis(
        chain_id=CHAIN_ID,
        denom=DENOM,
        params=Params(),
        accounts=tuple(GenesisAccount(address, coins) for address in addresses),
        validators=(
            GenesisValidator(
                operator=keys[0].address,
                moniker="bench",
                cons_key=b"\x01" * 32,
                beacon_key=keys[0].pub_key,
                stake=10**8,
            ),
        ),
    )
    began = perf_counter()
    storage = Storage(path)
    app = Application(storage, AppConfig())
    app.init_chain(genesis, _TIME_NS)
    app.finalize_block(1, _TIME_NS + 10**9, b"\x01" * 32, bytes(20), ())
    app.commit()
    seconds = perf_counter() - began
    storage.close()
    parent.send((seconds, _peak()))


def run_node(path: Path, parent: Connection) -> None:
    """Start from the state; send the time of the first Info, the memory, and the seconds of checks and blocks."""
    calm_collector()
    storage = Storage(path)
    with start_verifier() as verifier:
        app = Application(storage, AppConfig(), verifier)
        head = app.info()
        parent.send(time())
        parent.send(_peak())
        keys = _keys()
        bare: list[float] = []
        seen: list[float] = []
        unseen: list[float] = []
        random = Random(1)
        height = head.block.height
        for repeat in range(2 * REPEATS):
            txs = [
                build_tx(
                    (MsgSend(key.address, _address(random.randrange(ACCOUNTS - TRANSFERS)), (Coin(DENOM, 1),)),),
                    key,
                    chain_id=CHAIN_ID,
                    account_number=number,
                    sequence=repeat,
                    fee=(Coin(DENOM, 1_000_000),),
                    gas_limit=100_000,
                )
                for number, key in enumerate(keys)
            ]
            is_seen = repeat % 2 == 0
            if is_seen:
                bare.append(_bare(keys))
                _check([app.check_tx(tx).code for tx in txs])
            height += 1
            began = perf_counter()
            done = app.finalize_block(height, _TIME_NS + height * 10**9, bytes([height]) * 32, bytes(20), txs)
            app.commit()
            (seen if is_seen else unseen).append(perf_counter() - began)
            _check([result.code for result in done.result.tx_results])
    storage.close()
    parent.send((bare, seen, unseen, _peak()))


def _check(codes: Sequence[int]) -> None:
    refused = sum(map(bool, codes))
    if refused:
        raise RuntimeError(f"{refused} transfers were refused, with the code {next(filter(None, codes))}")


def _bare(keys: Sequence[Key]) -> float:
    """Return the seconds in which coincurve's public interface verifies a signature of each key."""
    message = b"m" * 200
    cases = [(PublicKey(key.pub_key), cdata_to_der(deserialize_compact(key.sign(message)))) for key in keys]
    began = perf_counter()
    for public, signature in cases:
        if not public.verify(signature, message):
            raise RuntimeError("a good signature does not verify")
    return perf_counter() - began


def _peak() -> float:
    """Return the most memory that this process has used (GB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
