"""Nonces are remembered as long as they matter, in bounded memory."""

import pytest

from link.envelope import TIME_TOLERANCE, Gate, NonceMemory, seal
from link.errors import ClusterError, ClusterErrorKind
from wire.keys import Key

KEY = Key(b"\x05" * 32)


def nonce(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_a_nonce_is_refused_for_as_long_as_its_envelope_would_pass() -> None:
    memory = NonceMemory(capacity=10, per_caller=10)
    memory.use("a", nonce(1), now=1000)
    memory.use("b", nonce(1), now=1000)  # another caller's nonce is another nonce
    # An envelope from the future (+60 s) passes the check of time until 120 s later.
    with pytest.raises(ClusterError) as refused:
        memory.use("a", nonce(1), now=1000 + 2 * TIME_TOLERANCE)
    assert refused.value.kind is ClusterErrorKind.REPLAYED
    memory.use("a", nonce(1), now=1000 + 2 * TIME_TOLERANCE + 2)


def test_a_full_memory_refuses_and_never_forgets_early() -> None:
    memory = NonceMemory(capacity=5, per_caller=3)
    for number in range(3):
        memory.use("a", nonce(number), now=1000)
    with pytest.raises(ClusterError) as refused:
        memory.use("a", nonce(3), now=1000)
    assert refused.value.kind is ClusterErrorKind.BUSY
    with pytest.raises(ClusterError) as refused:
        memory.use("a", nonce(0), now=1000)
    assert refused.value.kind is ClusterErrorKind.REPLAYED
    memory.use("b", nonce(0), now=1000)
    memory.use("b", nonce(1), now=1000)
    with pytest.raises(ClusterError) as refused:
        memory.use("c", nonce(0), now=1000)
    assert refused.value.kind is ClusterErrorKind.BUSY
    memory.use("a", nonce(3), now=2000)  # two minutes later there is room again


@pytest.mark.parametrize(("skew", "passes"), [(-61, False), (-60, True), (60, True), (61, False)])
def test_the_time_may_be_off_by_a_minute(skew: int, passes: bool) -> None:
    gate = Gate("chain", bytes(32), clock=lambda: 5000.5)
    envelope = seal(KEY, "chain", bytes(32), "Poll", b"body", now=5000 + skew)
    if passes:
        assert gate.check(envelope, "Poll", b"body").address == KEY.address
    else:
        with pytest.raises(ClusterError) as refused:
            gate.check(envelope, "Poll", b"body")
        assert refused.value.kind is ClusterErrorKind.STALE


def test_strangers_cannot_fill_the_memory_of_those_who_are_known() -> None:
    gate = Gate("chain", bytes(32), clock=lambda: 5000.0)
    stranger = Key(b"\x06" * 32)

    def flood() -> None:
        for _ in range(1_100):
            gate.use_nonce(seal(stranger, "chain", bytes(32), "Probe", b"", now=5000), False)

    with pytest.raises(ClusterError) as refused:
        flood()
    assert refused.value.kind is ClusterErrorKind.BUSY
    gate.use_nonce(seal(KEY, "chain", bytes(32), "Poll", b"", now=5000), True)
