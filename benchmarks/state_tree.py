"""The sparse Merkle tree of the state: keys per second that a block's batch updates in a tree of 100,000 keys.

The tree is in LevelDB. The baseline is the time of the hashes alone: SHA-256 of each key, value, leaf and inner node
above the leaf.
"""

from collections.abc import Iterable
from hashlib import sha256
from random import Random
from time import perf_counter

from benchmarks.figures import Figures, Row
from chain.app import smt
from chain.app.interfaces import ChainHead, CommittedBlock
from chain.app.storage import Storage

NAME = "state_tree"
KEYS = 100_000
BATCHES = (100, 1_000, 5_000)
REPEATS = 5
HEAD = ChainHead("assay-bench", CommittedBlock(height=1, time_ns=1, hash=b"", proposer=b"", app_hash=b""), 1)


def run() -> Figures:
    """Measure and return the table."""
    random = Random(1)
    storage = filled()
    rows = []
    for size in BATCHES:
        rate, hashes = _update_rate(storage, random, size)
        bare = _hash_rate() / hashes
        rows.append(Row(f"hashes alone, batch of {size:,}", bare, "keys/s"))
        rows.append(Row(case=f"update, batch of {size:,}", value=rate, unit="keys/s", baseline=bare))
    storage.close()
    return Figures(NAME, rows)


def filled() -> Storage:
    """Return a temporary store with ``KEYS`` keys."""
    storage = Storage.temporary()
    changes: dict[bytes, bytes | None] = {b"key %d" % n: b"value %d" % n for n in range(KEYS)}
    storage.commit(HEAD, changes, smt.update(storage.page, changes))
    return storage


def _update_rate(storage: Storage, random: Random, size: int) -> tuple[float, float]:
    """Return the number of keys per second that batches of ``size`` keys update, and the number of hashes per key."""
    seconds, hashes = 0.0, 0
    for repeat in range(REPEATS):
        changes: dict[bytes, bytes | None] = {
            b"key %d" % n: b"new %d %d" % (n, repeat) for n in random.sample(range(KEYS), size)
        }
        start = perf_counter()
        smt.update(storage.page, changes)
        seconds += perf_counter() - start
        hashes += 3 * size + _inner_nodes(storage, changes)
    return REPEATS * size / seconds, hashes / (REPEATS * size)


def _inner_nodes(storage: Storage, keys: Iterable[bytes]) -> int:
    """Return the number of inner nodes above the leaves of keys."""
    nodes: set[str] = set()
    for key in keys:
        path = bin(1 << 256 | int(smt.path_of(key), 16))
        nodes.update(path[: 3 + depth] for depth in range(len(smt.find_path(storage.page, key).siblings)))
    return len(nodes)


def _hash_rate() -> float:
    data = b"\x01" + bytes(64)
    count = 200_000
    start = perf_counter()
    for _ in range(count):
        sha256(data).digest()
    return count / (perf_counter() - start)
