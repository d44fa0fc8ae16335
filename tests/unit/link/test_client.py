"""The caller resumes blobs, drops wrong bytes, and repeats only what did not get through."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from assay.cluster.v1 import cluster_pb2 as pb
from link import types as t
from link.blobs import BlobStore
from link.client import ClusterClient
from link.errors import ClusterError, ClusterErrorKind
from link.server import ClusterServer
from tests.unit.link.support import AUDITOR, CHAIN, CONSUMER, PROVIDER, Running, running

DATA = bytes(range(251)) * 10_000  # 2.5 MB: three chunks


@pytest.fixture
def up(tmp_path: Path) -> Any:
    with running(tmp_path / "validator") as server:
        yield server


def test_a_blob_goes_there_and_back(up: Running, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    with up.client() as client:
        blob = client.put_blob(DATA, lambda done, total: seen.append((done, total)))
        assert blob == t.BlobRef(sha256(DATA).digest(), len(DATA))
        assert client.put_blob(DATA) == blob  # again: nothing is sent
        client.get_blob(blob, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == DATA
    assert seen[0] == (0, len(DATA))
    assert seen[-1] == (len(DATA), len(DATA))


def test_an_upload_goes_on_where_it_stopped(up: Running, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(DATA)
    blob = t.BlobRef(sha256(DATA).digest(), len(DATA))
    up.answers.blobs.put(blob, 0, DATA[:1_234_567], PROVIDER.address)
    seen: list[int] = []
    with up.client() as client:
        client.put_blob(path, lambda done, total: seen.append(done))
    assert seen[0] == 1_234_567
    assert up.answers.blobs.has(blob.sha256)


def test_a_download_goes_on_where_it_stopped(up: Running, tmp_path: Path) -> None:
    blob = up.answers.blobs.add(DATA)
    (tmp_path / "file.part").write_bytes(DATA[:2_000_000])
    seen: list[int] = []
    with up.client() as client:
        client.get_blob(blob, tmp_path / "file", lambda done, total: seen.append(done))
    assert seen[0] == 2_000_000
    assert (tmp_path / "file").read_bytes() == DATA


def test_wrong_bytes_are_never_left_at_the_path(up: Running, tmp_path: Path) -> None:
    blob = up.answers.blobs.add(DATA)
    up.answers.blobs.path(blob.sha256).write_bytes(b"\xff" + DATA[1:])  # the validator lies
    store = BlobStore(tmp_path / "mine", quota=1 << 30)
    with up.client() as client:
        with pytest.raises(ClusterError) as refused:
            client.get_blob(blob, tmp_path / "file")
        assert refused.value.kind is ClusterErrorKind.WRONG_CONTENT
        with pytest.raises(ClusterError) as refused:
            client.fetch(blob, store)
        assert refused.value.kind is ClusterErrorKind.WRONG_CONTENT
        assert not (tmp_path / "file").exists()
        assert not store.has(blob.sha256)
        up.answers.blobs.path(blob.sha256).write_bytes(DATA)
        client.get_blob(blob, tmp_path / "file")  # nothing wrong was kept to go on from
        client.fetch(blob, store)
    assert (tmp_path / "file").read_bytes() == DATA
    assert store.has(blob.sha256)
    store.close()


def test_a_caller_who_may_not_read_gets_nothing(up: Running, tmp_path: Path) -> None:
    blob = up.answers.blobs.add(b"secret")
    with up.client(AUDITOR) as auditor:
        auditor.get_blob(blob, tmp_path / "read")
    assert (tmp_path / "read").read_bytes() == b"secret"
    with up.client(CONSUMER) as consumer, pytest.raises(ClusterError) as refused:
        consumer.get_blob(blob, tmp_path / "refused")
    assert refused.value.kind is ClusterErrorKind.NOT_ALLOWED


def test_all_pages_of_a_result_are_put_together(up: Running) -> None:
    with up.client(CONSUMER) as client:
        manifest = client.whole_result(bytes(32), 3)
    assert [leaf.sealed.length for leaf in manifest.leaves] == list(range(20_000))


def test_a_result_of_another_length_is_refused_before_it_is_fetched(up: Running) -> None:
    with up.client(CONSUMER) as client:
        assert client.whole_result(bytes(32), 3, 20_000).count == 20_000
        for count in (19_999, 20_001, 0):
            with pytest.raises(ClusterError, check=lambda e: e.kind is ClusterErrorKind.BAD_REPLY):
                client.whole_result(bytes(32), 3, count)


def test_pages_that_trickle_are_refused(up: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leaf in each answer would keep the consumer for as long as the validator likes."""
    real = up.answers.get_result

    def trickle(caller: t.Caller, request: t.ResultRequest) -> t.ResultManifest:
        page = real(caller, request)
        return replace(page, leaves=page.leaves[:1])

    monkeypatch.setattr(up.answers, "get_result", trickle)
    with (
        up.client(CONSUMER) as client,
        pytest.raises(ClusterError, check=lambda e: e.kind is ClusterErrorKind.BAD_REPLY),
    ):
        client.whole_result(bytes(32), 3)


def test_what_did_not_get_through_is_repeated_with_a_new_envelope(tmp_path: Path) -> None:
    """The first tries find no server; the waits between them start one."""
    with running(tmp_path) as up:
        port = up.server.port
        up.server.stop(0)
        client = ClusterClient(f"127.0.0.1:{port}", up.certificate.der, PROVIDER, CHAIN, 5.0, tries=30)
        waits: list[float] = []
        servers: list[ClusterServer] = []

        def wait(seconds: float) -> bool:
            waits.append(seconds)
            if len(waits) == 2:
                servers.append(ClusterServer(f"127.0.0.1:{port}", up.certificate, up.answers, CHAIN))
                servers[0].start()
            return real_wait(seconds)

        real_wait = client._closed.wait
        client._closed.wait = wait  # type: ignore[method-assign, assignment]
        assert client.call(t.POLL, t.PollRequest("1", ())).retry_after_ms == 100
        assert len(up.answers.asked) == 1
        assert len(waits) >= 2
        assert all(0 <= seconds <= 2.0 for seconds in waits)
        client.close()
        servers[0].stop(0)


def test_the_tries_are_bounded(tmp_path: Path) -> None:
    with running(tmp_path) as up:
        up.server.stop(0)
        with up.client(tries=3) as client, pytest.raises(ClusterError) as refused:
            client.call(t.POLL, t.PollRequest("1", ()))
    assert refused.value.kind is ClusterErrorKind.UNREACHABLE


def test_a_refusal_is_not_repeated(up: Running) -> None:
    up.answers.bug = True
    calls = 0
    roles = up.answers.roles

    def counting(caller: t.Caller) -> frozenset[t.Role]:
        nonlocal calls
        calls += 1
        return roles(caller)

    up.answers.roles = counting  # type: ignore[method-assign]
    with up.client(tries=5) as client, pytest.raises(ClusterError) as refused:
        client.call(t.POLL, t.PollRequest("1", ()))
    assert refused.value.kind is ClusterErrorKind.INTERNAL
    assert calls == 1


def test_a_call_on_a_closed_connection_is_an_error_of_the_link(up: Running) -> None:
    """Another thread may have closed it, because the validator has moved."""
    client = up.client()
    client.close()
    with pytest.raises(ClusterError) as refused:
        client.call(t.POLL, t.PollRequest("1", ()))
    assert refused.value.kind is ClusterErrorKind.UNREACHABLE


def test_no_answer_in_time_is_an_error(up: Running) -> None:
    from threading import Event

    go_on = Event()

    def stuck(caller: t.Caller) -> frozenset[t.Role]:
        go_on.wait(30)
        return frozenset()

    up.answers.roles = stuck  # type: ignore[method-assign]
    with up.client(timeout=0.3) as client, pytest.raises(ClusterError) as refused:
        client.call(t.POLL, t.PollRequest("1", ()))
    go_on.set()
    assert refused.value.kind is ClusterErrorKind.TIMED_OUT


def test_an_answer_out_of_bounds_is_refused_by_the_caller(up: Running) -> None:
    with up.client() as client:
        lie = pb.PollReply(retry_after_ms=2**31).SerializeToString()
        stubs: dict[str, Any] = client._stubs
        stubs["Poll"] = lambda raw, timeout: lie
        with pytest.raises(ClusterError) as refused:
            client.call(t.POLL, t.PollRequest("1", ()))
    assert refused.value.kind is ClusterErrorKind.BAD_REPLY
    assert "retry_after_ms" in refused.value.reason


def test_words_of_another_owner_reach_no_terminal_as_they_are() -> None:
    error = ClusterError(ClusterErrorKind.BUSY, "wait\x1b[2J", "a\rb", field="\u202ex")
    assert str(error) == r"\u202ex: wait\x1b[2J; a\rb"
