"""The server refuses, with a typed reason, what is not signed, fresh, allowed and well-formed."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.cluster.v1 import cluster_pb2 as pb
from domain.keys import ShareKey
from domain.limits import (
    NAME_MAX,
    PAYLOAD_BYTES_MAX,
    PROBE_PIECES_MAX,
    SHARE_SEGMENTS_MAX,
    TEXT_MAX,
)
from link import types as t
from link.calls import SERVICE, Call, decode, encode
from link.client import _failure
from link.envelope import Envelope, SignedRequest, seal
from link.errors import ClusterError, ClusterErrorKind, ListenError
from link.rates import Rate, ServerLimits
from link.tls import SERVER_NAME
from tests.unit.link.support import (
    CHAIN,
    CONSUMER,
    PROVIDER,
    STRANGER,
    Running,
    running,
)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("validator")) as server:
        yield server


def send_raw(up: Running, method: str, body: bytes) -> bytes:
    """Send any bytes as a provider, rightly signed."""
    sealed = seal(PROVIDER, CHAIN, sha256(up.certificate.der).digest(), method, body)
    with grpc.secure_channel(
        up.endpoint,
        grpc.ssl_channel_credentials(up.certificate.cert_pem),
        options=[("grpc.ssl_target_name_override", SERVER_NAME)],
    ) as channel:
        try:
            stub: Any = channel.unary_unary(f"/{SERVICE}/{method}")
            return cast(bytes, stub(raw_of(sealed, body), timeout=10))
        except grpc.RpcError as error:
            raise _failure(error) from None


@pytest.fixture(scope="module")
def send(up: Running) -> Iterator[Callable[[str, bytes], bytes]]:
    """Send raw bytes to a method; raise what the client would raise."""
    channel = grpc.secure_channel(
        up.endpoint,
        grpc.ssl_channel_credentials(up.certificate.cert_pem),
        options=[("grpc.ssl_target_name_override", SERVER_NAME)],
    )

    def call(method: str, raw: bytes) -> bytes:
        try:
            stub: Any = channel.unary_unary(f"/{SERVICE}/{method}")
            return cast(bytes, stub(raw, timeout=10))
        except grpc.RpcError as error:
            raise _failure(error) from None

    yield call
    channel.close()


def poll_body() -> bytes:
    return pb.PollRequest(version="1").SerializeToString()


def envelope_for(up: Running, **changes: object) -> Envelope:
    audience = sha256(up.certificate.der).digest()
    sealed = seal(PROVIDER, CHAIN, audience, "Poll", poll_body())
    return replace(sealed, **changes)  # type: ignore[arg-type]


def raw_of(envelope: Envelope, body: bytes) -> bytes:
    return encode(SignedRequest(envelope, body))


def test_a_signed_request_is_answered_and_its_replay_refused(up: Running, send: Callable[[str, bytes], bytes]) -> None:
    raw = raw_of(envelope_for(up), poll_body())
    assert pb.PollReply.FromString(send("Poll", raw)).retry_after_ms == 100
    with pytest.raises(ClusterError) as refused:
        send("Poll", raw)
    assert refused.value.kind is ClusterErrorKind.REPLAYED
    assert refused.value.field == "envelope.nonce"
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("changes", "kind", "field"),
    [
        ({"chain_id": "another"}, ClusterErrorKind.BAD_SIGNATURE, "envelope.chain_id"),
        ({"audience": bytes(32)}, ClusterErrorKind.BAD_SIGNATURE, "envelope.audience"),
        ({"method": "Join"}, ClusterErrorKind.BAD_SIGNATURE, "envelope.method"),
        ({"caller": CONSUMER.address}, ClusterErrorKind.BAD_SIGNATURE, "envelope.pub_key"),
        ({"pub_key": bytes(33)}, ClusterErrorKind.BAD_SIGNATURE, "envelope.pub_key"),
        ({"nonce": bytes(16)}, ClusterErrorKind.BAD_SIGNATURE, "envelope.signature"),
        ({"signature": bytes(64)}, ClusterErrorKind.BAD_SIGNATURE, "envelope.signature"),
        (
            {"caller": CONSUMER.address, "pub_key": CONSUMER.pub_key},
            ClusterErrorKind.BAD_SIGNATURE,
            "envelope.signature",
        ),
    ],
)
def test_an_altered_envelope_is_refused(
    up: Running,
    send: Callable[[str, bytes], bytes],
    changes: dict[str, object],
    kind: ClusterErrorKind,
    field: str,
) -> None:
    with pytest.raises(ClusterError) as refused:
        send("Poll", raw_of(envelope_for(up, **changes), poll_body()))
    assert (refused.value.kind, refused.value.field) == (kind, field)
    assert refused.value.remedy


@pytest.mark.parametrize("skew", [-3600, -65, 65, 3600])
def test_an_envelope_from_another_time_is_refused(up: Running, send: Callable[[str, bytes], bytes], skew: int) -> None:
    now = envelope_for(up).unix_time
    audience = sha256(up.certificate.der).digest()
    sealed = seal(PROVIDER, CHAIN, audience, "Poll", poll_body(), now=now + skew)
    with pytest.raises(ClusterError) as refused:
        send("Poll", raw_of(sealed, poll_body()))
    assert refused.value.kind is ClusterErrorKind.STALE
    where = "ahead of" if skew > 0 else "behind"
    assert refused.value.reason.startswith("your clock is ")
    assert refused.value.reason.endswith(f"{where} the validator's")


def test_an_altered_body_is_refused(up: Running, send: Callable[[str, bytes], bytes]) -> None:
    other = pb.PollRequest(version="2").SerializeToString()
    with pytest.raises(ClusterError) as refused:
        send("Poll", raw_of(envelope_for(up), other))
    assert (refused.value.kind, refused.value.field) == (
        ClusterErrorKind.BAD_SIGNATURE,
        "envelope.signature",
    )


def test_a_request_signed_for_one_method_does_not_serve_another(
    up: Running, send: Callable[[str, bytes], bytes]
) -> None:
    with pytest.raises(ClusterError) as refused:
        send("Join", raw_of(envelope_for(up), poll_body()))
    assert (refused.value.kind, refused.value.field) == (
        ClusterErrorKind.BAD_SIGNATURE,
        "envelope.method",
    )


def test_a_stranger_may_measure_the_way_and_ask_to_join_and_nothing_else(up: Running) -> None:
    with up.client(STRANGER) as client:
        assert len(client.call(t.BANDWIDTH, t.BandwidthRequest(1000)).data) == 1000
        client.call(t.JOIN, t.JoinRequest("1", t.Machine("cpu", 1), ()))
        calls: list[tuple[Call[Any, Any], object]] = [
            (t.POLL, t.PollRequest("1", ())),
            (t.PROBE, t.ProbeRequest(())),
        ]
        for call, request in calls:
            with pytest.raises(ClusterError, check=lambda e: e.kind is ClusterErrorKind.NOT_ALLOWED):
                client.call(call, request)


def test_a_consumer_may_not_poll_nor_a_provider_offer(up: Running) -> None:
    with up.client(CONSUMER) as consumer, pytest.raises(ClusterError) as refused:
        consumer.call(t.POLL, t.PollRequest("1", ()))
    assert refused.value.kind is ClusterErrorKind.NOT_ALLOWED
    file = t.PayloadFile("job.json", t.BlobRef(bytes(32), 1))
    with up.client(PROVIDER) as provider, pytest.raises(ClusterError) as refused:
        provider.call(t.OFFER_PAYLOAD, t.PayloadOffer(bytes(32), (file,)))
    assert refused.value.kind is ClusterErrorKind.NOT_ALLOWED


def test_values_out_of_bounds_are_refused_with_their_path(up: Running, send: Callable[[str, bytes], bytes]) -> None:
    doing = pb.Doing(key=pb.ShareKey(order_id=bytes(31), leg=1, issue=1), phase=2)
    body = pb.PollRequest(version="1", doing=[doing]).SerializeToString()
    sealed = seal(PROVIDER, CHAIN, sha256(up.certificate.der).digest(), "Poll", body)
    with pytest.raises(ClusterError) as refused:
        send("Poll", raw_of(sealed, body))
    assert (refused.value.kind, refused.value.field) == (
        ClusterErrorKind.BAD_REQUEST,
        "doing[0].key.order_id",
    )


@pytest.mark.parametrize("path", ["../../etc/passwd", "/abs", "a/../b", ".hidden", "a//b", "a\0b"])
def test_a_payload_path_cannot_leave_the_job_directory(up: Running, path: str) -> None:
    body = pb.PayloadOffer(order_id=bytes(32))
    body.files.add(path=path, blob=pb.BlobRef(sha256=bytes(32), size=1))
    with pytest.raises(ClusterError) as refused:
        decode(t.PayloadOffer, body.SerializeToString())
    assert (refused.value.kind, refused.value.field) == (
        ClusterErrorKind.BAD_REQUEST,
        "files[0].path",
    )


def test_unknown_fields_of_a_request_are_refused() -> None:
    # Field 99 with a varint, at the top and inside a part.
    strange = b"\x98\x06\x01"
    for raw in (
        poll_body() + strange,
        pb.PollRequest(version="1").SerializeToString() + b"\x12" + bytes([len(strange)]) + strange,
    ):
        with pytest.raises(ClusterError) as refused:
            decode(t.PollRequest, raw)
        assert refused.value.kind is ClusterErrorKind.BAD_REQUEST
        assert "unknown field" in refused.value.reason


def test_a_bug_shows_no_inside(up: Running, caplog: pytest.LogCaptureFixture) -> None:
    up.answers.bug = True
    try:
        with up.client() as client, pytest.raises(ClusterError) as refused:
            client.call(t.POLL, t.PollRequest("1", ()))
    finally:
        up.answers.bug = False
    assert refused.value.kind is ClusterErrorKind.INTERNAL
    assert "secret" not in str(refused.value)
    assert "Traceback" not in str(refused.value)
    assert "secret of the validator" in caplog.text  # but the validator's own log has it


def test_a_message_over_the_limit_is_refused(send: Callable[[str, bytes], bytes]) -> None:
    with pytest.raises(ClusterError) as refused:
        send("PutChunk", bytes(t.MESSAGE_BYTES_MAX + 1))
    assert refused.value.kind is ClusterErrorKind.TOO_LARGE


@pytest.mark.parametrize("call", t.CALLS, ids=lambda call: call.name)
def test_more_than_a_call_has_is_refused_unread(send: Callable[[str, bytes], bytes], call: Call[Any, Any]) -> None:
    """Before its signature, that is: hashing and parsing take time that nobody has answered for."""
    with pytest.raises(ClusterError, check=lambda e: e.kind is ClusterErrorKind.TOO_LARGE):
        send(call.name, bytes(call.size + 2_048))


def test_the_largest_requests_are_within_the_size_of_their_calls() -> None:
    key = ShareKey(b"\xff" * 32, 2**32 - 1, 10_000 - 1, 1_000, 2**32 - 1)
    doing = t.Doing(key, t.Phase.TRAINING, 2**63 - 1, 2**63 - 1, 2**32 - 1)
    machine = t.Machine("x" * NAME_MAX, 2**63 - 1)
    blob = t.BlobRef(b"\xff" * 32, PAYLOAD_BYTES_MAX)
    file = t.PayloadFile("x" * TEXT_MAX, blob)
    largest: dict[Call[Any, Any], object] = {
        t.POLL: t.PollRequest("x" * NAME_MAX, (doing,) * t.TASKS_MAX),
        t.JOIN: t.JoinRequest("x" * NAME_MAX, machine, ("x" * NAME_MAX,) * 32),
        t.PROBE: t.ProbeRequest((bytes(32),) * PROBE_PIECES_MAX),
        t.PUT_CHUNK: t.PutChunkRequest(blob, 2**63 - 1, bytes(t.CHUNK_BYTES_MAX)),
        t.OFFER_PAYLOAD: t.PayloadOffer(bytes(32), (file,) * t.PAYLOAD_FILES_MAX),
        t.SUBMIT_OPENING: t.OpeningSubmission(key, SHARE_SEGMENTS_MAX, blob, blob),
    }
    for call, request in largest.items():
        assert len(encode(request)) <= call.size


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(method=st.sampled_from([call.name for call in t.CALLS]), raw=st.binary(max_size=200))
def test_random_bytes_are_a_bad_request(
    up: Running, send: Callable[[str, bytes], bytes], method: str, raw: bytes
) -> None:
    with pytest.raises(ClusterError) as refused:
        send(method, raw)
    assert refused.value.kind is ClusterErrorKind.BAD_REQUEST


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(method=st.sampled_from([call.name for call in t.CALLS]), body=st.binary(max_size=200))
def test_a_signed_random_body_never_shows_a_bug(
    up: Running, send: Callable[[str, bytes], bytes], method: str, body: bytes
) -> None:
    sealed = seal(PROVIDER, CHAIN, sha256(up.certificate.der).digest(), method, body)
    kind = None
    try:
        send(method, raw_of(sealed, body))
    except ClusterError as error:
        kind = error.kind
    assert kind in {
        None,
        ClusterErrorKind.BAD_REQUEST,
        ClusterErrorKind.NOT_ALLOWED,
        ClusterErrorKind.NOT_FOUND,
    }


def test_calls_over_the_rate_are_refused(tmp_path: Path) -> None:
    limits = ServerLimits(calls=Rate(per_second=0.001, burst=3))
    with running(tmp_path, limits=limits) as up, up.client() as client:
        for _ in range(3):
            client.call(t.POLL, t.PollRequest("1", ()))
        with pytest.raises(ClusterError) as refused:
            client.call(t.POLL, t.PollRequest("1", ()))
        assert refused.value.kind is ClusterErrorKind.BUSY
        # Another caller has a bucket of its own.
        with up.client(CONSUMER) as other:
            assert other.call(t.PAYLOAD_STATUS, t.PayloadStatusRequest(bytes(32))).loaded


def test_a_call_over_the_rate_leaves_no_nonce(tmp_path: Path) -> None:
    """Else a few callers fill the memory of all, and everybody is refused until it is empty again."""
    limits = ServerLimits(calls=Rate(per_second=0.001, burst=3))
    with running(tmp_path, limits=limits) as up, up.client() as client:
        for _ in range(10):
            with suppress(ClusterError):
                client.call(t.POLL, t.PollRequest("1", ()))
        assert len(up.server._gate._known._used) == 3


def test_long_messages_are_rationed_and_chunks_are_not(tmp_path: Path) -> None:
    """Reading a message takes time in proportion to its length, and everybody waits meanwhile."""
    limits = ServerLimits(messages=Rate(per_second=1, burst=3_000))
    with running(tmp_path, limits=limits) as up, up.client() as client:
        client.call(t.POLL, t.PollRequest("1", ()))
        with pytest.raises(ClusterError, check=lambda e: e.kind is ClusterErrorKind.BUSY):
            send_raw(up, "Poll", bytes(3_000))  # refused before it is read, else a bad request
        client.put_blob(bytes(100_000))


def test_strangers_share_one_bucket(tmp_path: Path) -> None:
    limits = ServerLimits(stranger_bytes=Rate(per_second=1, burst=5_000))
    with running(tmp_path, limits=limits) as up:
        with up.client(STRANGER) as client:
            client.call(t.BANDWIDTH, t.BandwidthRequest(4_000))
        with up.client(STRANGER) as another, pytest.raises(ClusterError) as refused:
            another.call(t.BANDWIDTH, t.BandwidthRequest(4_000))
    assert refused.value.kind is ClusterErrorKind.BUSY


def test_two_servers_cannot_share_a_port(up: Running, capfd: pytest.CaptureFixture[str]) -> None:
    from link.server import ClusterServer

    with pytest.raises(ListenError, match="is taken by another program"):
        ClusterServer(up.endpoint, up.certificate, up.answers, CHAIN)
    assert "add_port" not in capfd.readouterr().err, "gRPC has nothing to add"
