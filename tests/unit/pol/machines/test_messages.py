"""Messages between a leader and its members: what a member that lies achieves."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pol.machines.messages import Failed, Held, Joined, MetricValues, Open, TensorLeaves, Train, receive, send
from pol.machines.stream import LinkError, Stream

ANSWER = Held((TensorLeaves("global.w", bytes(64)),), (MetricValues("loss", (0, 2**32 - 1)),), 5, 1, 7)


@contextmanager
def connected() -> Iterator[tuple[socket.socket, Stream]]:
    own, theirs = socket.socketpair()
    own.setblocking(False)
    with theirs:
        stream = Stream(own.detach(), "machine 1")
        yield theirs, stream
        stream.close()


def soon() -> float:
    return time.monotonic() + 1.0


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def named(kind: str, record: object) -> bytes:
    return framed(json.dumps({"kind": kind, "record": record}).encode())


@pytest.mark.parametrize("record", [Joined(7), ANSWER, Failed("lost", "", "it has ended", -1, 2)])
def test_records_arrive(record: object) -> None:
    with connected() as (theirs, stream):
        send(Stream(theirs.fileno(), "the leader"), record, soon())
        assert receive(stream, (Joined, Held, Failed), 10_000, soon()) == record


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param((2**32 - 1).to_bytes(4, "big"), "4294967295 bytes, more than 10000", id="too large"),
        pytest.param(framed(b"\x80\x04."), "cannot be read", id="a pickle"),
        pytest.param(framed(b"[" * 9_000), "cannot be read", id="nested"),
        pytest.param(named("Eval", {}), "unexpected", id="no kind"),
        pytest.param(named("Open", {"global_path": "/etc/passwd", "local_path": "x"}), "unexpected", id="a command"),
        pytest.param(named("Held", {"tensors": []}), "missing fields", id="a field is missing"),
        pytest.param(
            named("Held", {"tensors": [], "metrics": [], "sent": -1, "messages": 0}), "sent", id="out of bounds"
        ),
        pytest.param(
            named("Held", {"tensors": [{"name": "a", "leaves": "zz"}], "metrics": [], "sent": 0, "messages": 0}),
            "cannot be read",
            id="no hex",
        ),
        pytest.param(framed(b"{}")[:-1], "before the deadline", id="incomplete"),
    ],
)
def test_other_bytes_are_refused(data: bytes, words: str) -> None:
    with connected() as (theirs, stream):
        theirs.sendall(data)
        with pytest.raises(LinkError, match=words):
            receive(stream, (Joined, Held, Failed), 10_000, soon())


def test_a_member_gets_only_commands() -> None:
    with connected() as (theirs, stream):
        send(Stream(theirs.fileno(), "the leader"), ANSWER, soon())
        with pytest.raises(LinkError, match="unexpected"):
            receive(stream, (Open, Train), 10_000, soon())
