"""Blobs are what their name says, survive a kill, stay inside the store and the quota."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from link.blobs import BlobStore
from link.errors import ClusterError, ClusterErrorKind
from link.types import BlobRef


@pytest.fixture
def store(tmp_path: Path) -> Iterator[BlobStore]:
    opened = BlobStore(tmp_path / "blobs", quota=10_000)
    yield opened
    opened.close()


def ref(data: bytes) -> BlobRef:
    return BlobRef(sha256(data).digest(), len(data))


def over_quota() -> "pytest.RaisesExc[ClusterError]":
    return pytest.raises(ClusterError, check=lambda e: e.kind is ClusterErrorKind.OVER_QUOTA)


def files(store: BlobStore) -> list[str]:
    root = store._complete.parent
    return sorted(p.name for p in root.rglob("*") if p.is_file() and "blobs.db" not in p.name)


def test_chunks_become_a_blob_and_repeats_change_nothing(store: BlobStore) -> None:
    data = bytes(range(256)) * 10
    blob = ref(data)
    assert store.put(blob, 0, data[:1000]).held == 1000
    assert store.put(blob, 0, data[:1000]).held == 1000
    assert store.put(blob, 500, data[500:1500]).held == 1500  # overlap: only the rest is new
    assert not store.has(blob.sha256)
    status = store.put(blob, 1500, data[1500:])
    assert status.complete
    assert store.put(blob, 0, data[:10]).complete
    assert store.read(blob.sha256, 1000, 5) == data[1000:1005]
    assert store.total() == len(data)


def test_pieces_become_a_blob_of_our_own(store: BlobStore) -> None:
    data = bytes(range(256)) * 20
    for _ in range(2):
        assert store.gather(data[i : i + 100] for i in range(0, len(data), 100)) == ref(data)
    assert store.read(ref(data).sha256, 0, len(data)) == data
    assert store.total() == store.total("") == len(data)
    assert files(store) == [ref(data).sha256.hex()]


def test_pieces_that_do_not_fit_or_end_too_soon_leave_nothing(store: BlobStore) -> None:
    def broken() -> Iterator[bytes]:
        yield bytes(10)
        raise OSError("gone")

    with over_quota():
        store.gather(bytes(1000) for _ in range(11))
    with pytest.raises(OSError, match="gone"):
        store.gather(broken())
    assert files(store) == []
    assert store.total() == 0


def test_a_gap_is_refused_with_the_place_to_go_on(store: BlobStore) -> None:
    blob = ref(bytes(100))
    store.put(blob, 0, bytes(10))
    with pytest.raises(ClusterError) as refused:
        store.put(blob, 11, bytes(10))
    assert refused.value.kind is ClusterErrorKind.WRONG_STATE
    assert "10" in refused.value.remedy
    assert store.status(blob).held == 10


def test_a_gap_promises_nothing(store: BlobStore) -> None:
    with pytest.raises(ClusterError):
        store.put(ref(bytes(100)), 50, bytes(50), owner="a")
    assert store.total("a") == 0


def test_bytes_beyond_the_size_are_refused(store: BlobStore) -> None:
    with pytest.raises(ClusterError) as refused:
        store.put(ref(bytes(10)), 5, bytes(6))
    assert refused.value.kind is ClusterErrorKind.BAD_REQUEST
    assert files(store) == []


def test_wrong_content_is_dropped_and_can_be_sent_anew(store: BlobStore) -> None:
    data = b"the right bytes"
    blob = ref(data)
    with pytest.raises(ClusterError) as refused:
        store.put(blob, 0, b"the wrong bytes")
    assert refused.value.kind is ClusterErrorKind.WRONG_CONTENT
    assert files(store) == []
    assert store.total() == 0
    assert store.put(blob, 0, data).complete


def test_one_owner_cannot_spoil_what_another_sends(store: BlobStore) -> None:
    data = b"the right bytes"
    blob = ref(data)
    store.put(blob, 0, b"garbage", owner="mallory")
    assert store.status(blob, "alice").held == 0
    store.put(blob, 0, data[:4], owner="alice")
    assert store.put(blob, 4, data[4:], owner="alice").complete
    assert store.read(blob.sha256, 0, 100) == data


def test_three_bytes_take_three_bytes_of_room(tmp_path: Path) -> None:
    """Else three callers fill a store with the first bytes of what they never send."""
    store = BlobStore(tmp_path, quota=1_000, owner_quota=900)
    for owner in ("a", "b", "c"):
        store.put(ref(owner.encode() * 900), 0, owner.encode(), owner=owner)
    assert store.total() == 3
    assert store.room("d") == 900
    store.put(ref(b"y" * 900), 0, b"y" * 900, owner="d")
    assert store.room("a") == 97
    store.close()


def test_quotas_count_what_has_arrived(tmp_path: Path) -> None:
    """Of whole blobs and of others, as they come in and when the store is opened again."""
    store = BlobStore(tmp_path, quota=1_000, owner_quota=600)
    growing = ref(bytes(700))
    store.put(ref(b"x" * 100), 0, b"x" * 100, owner="a")
    store.put(growing, 0, bytes(400), owner="a")
    store.close()
    store = BlobStore(tmp_path, quota=1_000, owner_quota=600)
    assert (store.total("a"), store.total("b"), store.room("a")) == (500, 0, 100)
    with over_quota():
        store.put(growing, 400, bytes(101), owner="a")
    assert store.put(growing, 400, bytes(100), owner="a").held == 500  # nothing was lost
    with over_quota():
        store.put(growing, 500, b"\0", owner="a")
    store.put(ref(b"y" * 400), 0, b"y" * 400, owner="b")
    with over_quota():
        store.put(ref(b"z"), 0, b"z", owner="b")  # the store is full
    store.delete(growing.sha256)
    store.put(ref(b"z"), 0, b"z", owner="b")
    assert store.total() == 501
    store.close()


def test_others_leave_room_for_what_is_made_here(tmp_path: Path) -> None:
    """Else whoever fills the store keeps its owner from going on with the orders it is bound to."""
    store = BlobStore(tmp_path, quota=1_000, owner_quota=500, kept_free=300)
    store.put(ref(bytes(600)), 0, bytes(500), owner="a")
    store.put(ref(bytes(300)), 0, bytes(200), owner="b")
    with over_quota():
        store.put(ref(b"x"), 0, b"x", owner="c")
    store.add(b"y" * 200)
    with over_quota():
        store.put(ref(b"x"), 0, b"x", owner="c")
    store.add(b"z" * 100)
    with over_quota():
        store.add(b"x")
    store.close()


def test_nobody_learns_what_others_sent(store: BlobStore) -> None:
    data = b"a well-known data set"
    blob = ref(data)
    assert store.put(blob, 0, data, owner="a").complete
    assert store.status(blob, "b").held == 0
    assert store.put(blob, 0, data[:1], owner="b").held == 1
    assert not store.sent(blob, "b")
    assert store.put(blob, 1, data[1:], owner="b").complete
    assert store.sent(blob, "b")
    assert store.status(blob, "a").complete
    # It is stored once, and both pay for it.
    assert (store.total("a"), store.total("b"), store.total()) == (len(data), len(data), len(data))
    assert store.status(blob).complete  # this machine may know


def test_both_owners_of_a_blob_are_forgotten_with_it(store: BlobStore) -> None:
    blob = ref(b"shared")
    for owner in ("a", "b"):
        store.put(blob, 0, b"shared", owner=owner)
    os.utime(store.path(blob.sha256), (1, 1))
    store.collect(older_than=1000)
    assert (store.total("a"), store.total("b"), store.total()) == (0, 0, 0)
    assert store.put(blob, 0, b"s", owner="b").held == 1


def test_what_is_made_here_is_bounded_by_the_whole_store_only(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, quota=1_000, owner_quota=100)
    store.add(bytes(900))
    store.close()


def test_unclaimed_blobs_are_counted_until_somebody_holds_them(store: BlobStore) -> None:
    whole, partial = ref(b"whole"), ref(b"partial")
    store.put(whole, 0, b"whole", owner="a")
    store.put(partial, 0, b"p", owner="a")
    store.put(ref(b"other"), 0, b"other", owner="b")
    nothing = ref(b"nothing")
    assert store.unclaimed("a", nothing) == (2, len(b"whole") + len(b"partial"))
    assert store.unclaimed("a", besides=partial) == (1, len(b"whole"))
    store.hold(whole.sha256, "order")
    assert store.unclaimed("a", nothing) == (1, len(b"partial"))


@pytest.mark.parametrize("end", ["release", "keep_only", "collect"])
def test_a_blob_that_is_held_at_the_last_moment_stays(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Whoever holds it and then finds it there may rely on it."""
    blob = store.add(b"shared")
    if end != "collect":
        store.hold(blob.sha256, "first")
    found: list[bool] = []

    def second() -> None:
        store.hold(blob.sha256, "second")
        found.append(store.has(blob.sha256))

    holder, real = Thread(target=second), store.is_held

    def is_held(digest: bytes) -> bool:
        held = real(digest)
        holder.start()
        holder.join(0.1)  # it gets its hold now, or waits until this is over
        return held

    monkeypatch.setattr(store, "is_held", is_held)
    act: dict[str, Callable[[], object]] = {
        "release": lambda: store.release("first"),
        "keep_only": lambda: store.keep_only("first", ()),
        "collect": lambda: store.collect(older_than=1e12),
    }
    act[end]()
    holder.join(5)
    assert found == [store.has(blob.sha256)]


@pytest.mark.parametrize("name", [b"", b"../../etc/passwd", bytes(31), bytes(33)])
def test_a_name_that_is_not_a_hash_is_no_path(store: BlobStore, name: bytes) -> None:
    for act in (
        lambda: store.has(name),
        lambda: store.read(name, 0, 1),
        lambda: store.put(BlobRef(name, 1), 0, b"x"),
        lambda: store.hold(name, "h"),
        lambda: store.delete(name),
    ):
        with pytest.raises(ClusterError) as refused:
            act()
        assert refused.value.kind is ClusterErrorKind.BAD_REQUEST


def test_a_blob_lives_until_its_last_holder_releases_it(store: BlobStore) -> None:
    blob = store.add(b"held twice")
    store.hold(blob.sha256, "order/1")
    store.hold(blob.sha256, "order/2")
    store.release("order/1")
    assert store.has(blob.sha256)
    store.release("order/2")
    assert not store.has(blob.sha256)
    assert store.total() == 0


def test_collect_deletes_old_blobs_that_nobody_holds_or_finished(store: BlobStore) -> None:
    held, loose, fresh = (store.add(data) for data in (b"held", b"loose", b"fresh"))
    abandoned, going_on = ref(bytes(50)), ref(bytes(60))
    store.put(abandoned, 0, bytes(3))
    for path in (store.path(held.sha256), store.path(loose.sha256), *store._partial.iterdir()):
        os.utime(path, (1, 1))
    store.put(going_on, 0, bytes(4))
    for blob in (held, abandoned, going_on):
        store.hold(blob.sha256, "order")
    assert store.collect(older_than=1000) == 2
    assert store.has(held.sha256)
    assert store.has(fresh.sha256)
    assert not store.has(loose.sha256)
    assert (store.status(abandoned).held, store.status(going_on).held) == (0, 4)
    assert store.total() == len(b"held") + len(b"fresh") + 4


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(min_size=1, max_size=300),
    steps=st.lists(st.tuples(st.integers(0, 299), st.integers(1, 300), st.booleans()), max_size=20),
)
def test_any_order_of_chunks_and_restarts_ends_in_the_blob(
    tmp_path_factory: pytest.TempPathFactory,
    data: bytes,
    steps: list[tuple[int, int, bool]],
) -> None:
    directory = tmp_path_factory.mktemp("store")
    blob = ref(data)
    store = BlobStore(directory, quota=1_000)
    for offset, length, restart in steps:
        part = data[offset : offset + length]
        before = store.status(blob)
        if part:
            if offset > before.held and not before.complete:
                with pytest.raises(ClusterError) as refused:
                    store.put(blob, offset, part)
                assert refused.value.kind is ClusterErrorKind.WRONG_STATE
            else:
                after = store.put(blob, offset, part)
                assert after.held == max(before.held, offset + len(part))
        if restart:
            store.close()
            store = BlobStore(directory, quota=1_000)
    held = store.status(blob).held
    if held < len(data):
        store.put(blob, held, data[held:])
    assert store.read(blob.sha256, 0, 1_000) == data
    store.close()


_SENDER = """
import sys
from hashlib import sha256
from pathlib import Path
from link.blobs import BlobStore
from link.types import BlobRef
data = bytes(range(256)) * 4096
store = BlobStore(Path(sys.argv[1]), quota=1 << 30)
blob = BlobRef(sha256(data).digest(), len(data))
held = store.status(blob).held
while held < len(data):
    held = store.put(blob, held, data[held : held + 4096]).held
    print(held, flush=True)
"""


def test_an_upload_goes_on_after_kill_9(tmp_path: Path) -> None:
    data = bytes(range(256)) * 4096
    blob = ref(data)
    with subprocess.Popen([sys.executable, "-c", _SENDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as sender:
        assert sender.stdout
        for line in sender.stdout:
            if int(line) >= 10 * 4096:
                break
        sender.send_signal(signal.SIGKILL)
    store = BlobStore(tmp_path, quota=1 << 30)
    held = store.status(blob).held
    assert 10 * 4096 <= held < len(data)  # nothing that was answered for is lost
    assert store.put(blob, held, data[held:]).complete
    assert store.read(blob.sha256, 0, len(data)) == data
    store.close()


@pytest.mark.parametrize("right", [True, False])
def test_a_kill_behind_the_last_byte_and_before_the_check(
    store: BlobStore, monkeypatch: pytest.MonkeyPatch, right: bool
) -> None:
    data = b"all of it" if right else b"other one"
    blob = ref(b"all of it")

    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(store, "_finish", kill)
        with pytest.raises(Killed):
            store.put(blob, 0, data)
    status = store.status(blob)  # whoever asks where to go on must have something to go on with
    assert (status.complete, status.held) == ((True, blob.size) if right else (False, 0))
    assert store.put(blob, 0, b"all of it").complete


def test_files_and_database_agree_after_a_crash_between_them(tmp_path: Path) -> None:
    store = BlobStore(tmp_path, quota=1_000)
    kept, lost = store.add(b"kept"), store.add(b"lost")
    renamed = ref(b"renamed")
    store.put(renamed, 0, b"rename")
    (partial,) = store._partial.iterdir()
    store.close()
    store.path(lost.sha256).unlink()  # the file went, its row stayed
    partial.write_bytes(b"renamed")  # the rename was done, its row says partial
    store.path(renamed.sha256).parent.mkdir(exist_ok=True)
    partial.rename(store.path(renamed.sha256))
    (tmp_path / "partial" / "stray").write_bytes(b"x")  # a file without a row
    store = BlobStore(tmp_path, quota=1_000)
    assert store.total() == len(b"kept") + len(b"renamed")
    assert store.has(kept.sha256)
    assert store.status(renamed).complete
    assert list(store._partial.iterdir()) == []
    store.close()
