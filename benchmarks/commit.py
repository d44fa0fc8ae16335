"""The time of Commit in milliseconds, for a block's changes to a tree of 100,000 keys in LevelDB.

The baseline writes the same keys and values in one LevelDB batch, without reading or encoding.
"""

from random import Random
from time import perf_counter

import plyvel

from benchmarks.figures import Figures, Row
from benchmarks.state_tree import HEAD, KEYS, filled
from chain.app import smt
from chain.app.storage import Storage

NAME = "commit"
SIZES = (500, 5_000)
REPEATS = 5

Entries = dict[bytes, bytes | None]


def run() -> Figures:
    """Measure and return the table."""
    random = Random(1)
    storage = filled()
    rows = []
    for size in SIZES:
        bare = best = float("inf")
        for repeat in range(REPEATS):
            changes: Entries = {b"key %d" % n: b"new %d %d" % (n, repeat) for n in random.sample(range(KEYS), size)}
            tree = smt.update(storage.page, changes)
            pages = {prefix.encode(): page for prefix, page in tree.pages.items()}
            bare = min(bare, _bare(storage._db, {**changes, **pages}))
            best = min(best, _commit(storage, changes, tree))
        what = f"{size:,} keys, {len(pages):,} pages"
        rows.append(Row(f"LevelDB alone, {what}", 1e3 * bare, "ms"))
        rows.append(Row(case=f"Commit, {what}", value=1e3 * best, unit="ms", baseline=1e3 * bare))
    storage.close()
    return Figures(NAME, rows)


def _commit(storage: Storage, changes: Entries, tree: smt.TreeUpdate) -> float:
    start = perf_counter()
    storage.commit(HEAD, changes, tree)
    return perf_counter() - start


def _bare(database: plyvel.DB, entries: Entries) -> float:
    """Return the seconds that LevelDB takes to write the entries in one batch, under keys that nothing else uses."""
    start = perf_counter()
    batch = database.write_batch()
    for key, value in entries.items():
        batch.put(b"x" + key, value or b"")
    batch.write()
    return perf_counter() - start
