"""The database: atomic commits, reads that stay as they are, and errors for a person."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import plyvel
import pytest

from chain.app.interfaces import ChainHead, CommittedBlock, StoredTx
from chain.app.smt import UNCHANGED, TreeUpdate, root_hash, update
from chain.app.storage import LARGE_COMMIT, NO_HEAD, Maker, Storage, StorageError, _unopened
from domain.block import TxResult
from domain.events import Event


def head(height: int, next_event: int = 1) -> ChainHead:
    block = CommittedBlock(height, height * 10**9, b"hash%d" % height, b"p" * 20, b"root%d" % height)
    return ChainHead("assay-test", block, next_event)


MANY: dict[bytes, bytes | None] = {b"%d" % number: b"value" for number in range(300)}
"""Keys for a tree of several pages."""


def tree_of(storage: Storage, changes: dict[bytes, bytes | None]) -> TreeUpdate:
    return update(storage.page, changes)


def stored_tx(name: bytes, height: int, code: int = 0) -> StoredTx:
    event = Event("transfer", (("amount", "1uassay"), ("to", "x")), 7)
    result = TxResult(code, "sdk" if code else "", "", 10, 9, (event,), (("order_id", b"\x01"),))
    return StoredTx(name * 32, height, 0, height * 10**9, b"raw" + name, result)


def test_everything_of_a_commit_comes_back_after_reopening(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "db")
    tx = stored_tx(b"t", 1)
    events = (Event("order.opened", (("order", "aa"),), 1), Event("payment", (), 2))
    tree = tree_of(storage, {b"k": b"v"})
    storage.commit(head(1, 3), {b"k": b"v"}, tree, (tx,), events)
    assert storage.page("") is tree.upper[""]
    storage.close()

    storage = Storage(tmp_path / "db")
    snapshot = storage.snapshot()
    assert snapshot.head == head(1, 3)
    assert snapshot.get(b"k") == b"v"
    for page in (storage.page(""), snapshot.page("")):
        assert page is not None
        assert page.settled() == tree.upper[""]
    assert storage.block(1) == head(1).block
    assert storage.tx(tx.hash) == tx
    logged = storage.events(1, 3, 10)
    assert [(e.number, e.height, e.type, e.attributes) for e in logged] == [
        (1, 1, "order.opened", (("order", "aa"),)),
        (2, 1, "payment", ()),
    ]
    storage.close()


def test_a_snapshot_does_not_see_later_commits() -> None:
    storage = Storage.temporary()
    storage.commit(head(1), {b"a": b"1", b"b": b"1"})
    old = storage.snapshot()
    storage.commit(head(2), {b"a": b"2", b"b": None})
    assert (old.head.block.height, old.get(b"a"), old.get(b"b")) == (1, b"1", b"1")
    new = storage.snapshot()
    assert (new.head.block.height, new.get(b"a"), new.get(b"b")) == (2, b"2", None)
    storage.close()


def test_each_snapshot_has_the_tree_of_its_commit() -> None:
    """The cache of upper pages belongs to the newest commit, and a page that is gone leaves it too."""
    storage = Storage.temporary()
    kept = []
    history: list[dict[bytes, bytes | None]] = [MANY, {b"3": b"new"}, dict.fromkeys(MANY), {b"3": b"again"}]
    for height, changes in enumerate(history, 1):
        tree = tree_of(storage, changes)
        storage.commit(head(height), changes, tree)
        assert root_hash(storage.page) == tree.root
        kept.append((storage.snapshot(), tree.root))
    assert len({root for _, root in kept}) == 4
    assert [root_hash(snapshot.page) for snapshot, _ in kept] == [root for _, root in kept]
    storage.close()


def test_a_large_commit_leaves_no_log_to_read_again(tmp_path: Path) -> None:
    """LevelDB would hold the whole log in memory at the next start."""
    for name, count, is_left in (("small", LARGE_COMMIT, True), ("large", LARGE_COMMIT + 1, False)):
        storage = Storage(tmp_path / name)
        storage.commit(head(1), {b"%d" % key: b"" for key in range(count)})
        assert any(log.stat().st_size for log in (tmp_path / name).glob("*.log")) == is_left
        storage.close()
        storage = Storage(tmp_path / name)
        assert sum(1 for _ in storage.snapshot().scan(b"")) == count
        storage.close()


@pytest.mark.parametrize("damage", ["emptied", "short", "long", "no slots", "a leaf in an empty slot", "gone"])
def test_a_wrong_page_of_the_tree_is_refused(damage: str) -> None:
    """LevelDB's checksums hold here: another program has written the page."""
    storage = Storage.temporary()
    storage.commit(head(1), MANY, tree_of(storage, MANY))
    prefix = next(prefix for prefix in storage._upper if prefix)
    page = storage._get(b"n" + prefix.encode())
    assert page is not None
    wrong = {
        "emptied": b"",
        "short": page[:-1],
        "long": page + b"x",
        "no slots": bytes(4),
        "a leaf in an empty slot": bytes(3) + b"\x01" + page[4:],
        "gone": None,
    }[damage]
    storage._upper.clear()
    if wrong is None:
        storage._db.delete(b"n" + prefix.encode())
    else:
        storage._put(b"n" + prefix.encode(), wrong)
    for read in (storage.page, storage.snapshot().page):
        with pytest.raises(StorageError, match="lacks the page at" if wrong is None else "is damaged"):
            update(read, dict.fromkeys(MANY, b"new"))
    storage.close()


def test_scans_stay_inside_the_prefix_and_behind_after() -> None:
    storage = Storage.temporary()
    keys = [b"\x01", b"\x01a", b"\x01b", b"\x01\xff", b"\x02", b"\xff", b"\xffz"]
    storage.commit(head(1), {key: b"v" + key for key in keys}, tree_of(storage, MANY))
    snapshot = storage.snapshot()

    def scan(prefix: bytes, after: bytes = b"") -> list[bytes]:
        return [key for key, _ in snapshot.scan(prefix, after)]

    assert scan(b"") == sorted(keys)
    assert scan(b"\x01") == [b"\x01", b"\x01a", b"\x01b", b"\x01\xff"]
    assert scan(b"\x01", b"\x01a") == [b"\x01b", b"\x01\xff"]
    assert scan(b"\x01", b"\x00") == scan(b"\x01")
    assert scan(b"\xff") == [b"\xff", b"\xffz"]
    assert scan(b"\x03") == []
    storage.close()


def test_a_transaction_that_comes_again_and_fails_keeps_its_first_result() -> None:
    storage = Storage.temporary()
    good, bad = stored_tx(b"t", 1), stored_tx(b"t", 2, code=32)
    storage.commit(head(1), {}, UNCHANGED, (good, stored_tx(b"t", 1, code=32)))
    storage.commit(head(2), {}, UNCHANGED, (bad,))
    assert storage.tx(good.hash) == good
    failed_first, then_good = stored_tx(b"u", 3, code=5), stored_tx(b"u", 4)
    storage.commit(head(3), {}, UNCHANGED, (failed_first,))
    storage.commit(head(4), {}, UNCHANGED, (then_good,))
    assert storage.tx(then_good.hash) == then_good
    storage.close()


def test_events_are_cut_at_both_ends() -> None:
    storage = Storage.temporary()
    storage.commit(head(1, 6), {}, UNCHANGED, (), tuple(Event("x", (), number) for number in range(1, 6)))

    def numbers(since: int, until: int, limit: int) -> list[int]:
        return [event.number for event in storage.events(since, until, limit)]

    assert numbers(0, 6, 10) == [1, 2, 3, 4, 5]
    assert numbers(2, 5, 10) == [2, 3, 4]
    assert numbers(2, 6, 2) == [2, 3]
    assert numbers(6, 6, 10) == numbers(9, 6, 10) == []
    storage.close()


@pytest.mark.parametrize(
    ("first", "second", "remedy"),
    [
        (Maker.SOLO, Maker.COMETBFT, "start the node with --solo, or use another --home for CometBFT"),
        (Maker.COMETBFT, Maker.SOLO, "start the node without --solo, or use another --home for --solo"),
    ],
)
def test_blocks_of_one_maker_are_not_for_the_other(tmp_path: Path, first: Maker, second: Maker, remedy: str) -> None:
    storage = Storage(tmp_path / "db")
    storage.claim(second)  # a store without blocks is free
    storage.claim(first)
    storage.commit(head(1), {})
    storage.close()
    for _ in range(2):  # the second time shows that the first changed nothing
        storage = Storage(tmp_path / "db")
        with pytest.raises(StorageError, match=remedy):
            storage.claim(second)
        storage.claim(first)
        storage.close()


def test_an_older_store_belongs_to_whoever_comes_first() -> None:
    storage = Storage.temporary()
    storage.commit(head(1), {})  # by a version that wrote no mark
    storage.claim(Maker.SOLO)
    with pytest.raises(StorageError, match="has blocks of a solo node"):
        storage.claim(Maker.COMETBFT)
    storage.close()


def test_a_database_in_use_is_one_sentence(tmp_path: Path) -> None:
    storage = Storage(tmp_path / "db")
    with pytest.raises(StorageError, match="in use by another process; stop the node"):
        Storage(tmp_path / "db")
    storage.close()


def test_another_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    Storage(tmp_path / "db").close()
    database = plyvel.DB(str(tmp_path / "db"))
    database.put(b"mformat", b"99")
    database.close()
    for _ in range(2):  # the second time shows that the first released the lock and changed nothing
        with pytest.raises(StorageError, match="has format 99, but this version reads format 2"):
            Storage(tmp_path / "db")


def test_a_path_that_is_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "db").write_text("not a directory")
    with pytest.raises(StorageError, match="cannot be opened"):
        Storage(tmp_path / "db")


def test_a_temporary_store_starts_empty_and_disappears() -> None:
    storage = Storage.temporary()
    path = storage.path
    assert storage.snapshot().head == NO_HEAD
    storage.close()
    assert not path.exists()


def test_a_damaged_database_names_the_better_way_first(tmp_path: Path) -> None:
    path = tmp_path / "assay.db"
    Storage(path).close()
    (manifest,) = path.glob("MANIFEST-*")
    manifest.write_bytes(b"no manifest")
    with pytest.raises(StorageError, match=r"assay\.db is damaged") as error:
        Storage(path)
    assert "b'" not in str(error.value)
    assert error.value.remedy.startswith(f"move it away (mv {path} {path}.damaged) and start")


def test_a_path_without_permission_is_not_called_in_use(tmp_path: Path) -> None:
    """LevelDB's text names the file LOCK for each error about it."""
    for text, reason in (
        (b"IO error: /db/LOCK: Read-only file system", "mount its disk so that it can be written"),
        (b"IO error: /db/LOCK: Permission denied", "let this user read and write it"),
        (b"IO error: lock /db/LOCK: Resource temporarily unavailable", "stop the node that runs"),
    ):
        assert reason in str(_unopened(tmp_path, plyvel.IOError(text)))


# Damaged files

KEYS = 40
HEIGHTS = 120
SEAM = 60
"""The store is opened again after this height, so that it has a table and a log."""


def state_after(height: int) -> dict[bytes, bytes]:
    """Return the state after a height: each block changes one key, so that a lost block leaves a trace."""
    return {
        b"key%02d" % (at % KEYS): Random(at).randbytes(400) for at in range(height - min(height, KEYS) + 1, height + 1)
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("written") / "assay.db"
    for heights in (range(1, SEAM + 1), range(SEAM + 1, HEIGHTS + 1)):
        storage = Storage(path)
        for height in heights:
            changed: dict[bytes, bytes | None] = {b"key%02d" % (height % KEYS): Random(height).randbytes(400)}
            storage.commit(head(height), changed)
        storage.close()
    assert list(path.glob("*.ldb"))
    assert next(path.glob("*.log")).stat().st_size
    return path


def cut(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


def flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "cut": cut,
    "emptied": lambda data: b"",
    "flipped": flip,
    "gone": lambda data: None,
}
OLDER = {("log", "cut"), ("log", "emptied"), ("log", "gone")}
"""A torn log is what a power failure leaves: the store is older, and consensus replays the blocks."""


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["*.ldb", "*.log", "MANIFEST-*", "CURRENT"])
def test_a_damaged_file_is_refused_and_never_another_state(
    written: Path, tmp_path: Path, name: str, damage: str
) -> None:
    path = tmp_path / "assay.db"
    shutil.copytree(written, path)
    (file,) = path.glob(name)
    data = DAMAGES[damage](file.read_bytes())
    if data is None:
        file.unlink()
    else:
        file.write_bytes(data)

    def read() -> tuple[int, dict[bytes, bytes]]:
        storage = Storage(path)
        try:
            snapshot = storage.snapshot()
            return snapshot.head.block.height, dict(snapshot.scan(b""))
        finally:
            storage.close()

    if (name.strip("*."), damage) in OLDER:
        height, state = read()
        assert SEAM <= height < HEIGHTS
        assert state == state_after(height)
        return
    with pytest.raises(StorageError, match=r"assay\.db is damaged") as error:
        read()
    assert "move it away" in error.value.remedy
    assert "b'" not in str(error.value)
