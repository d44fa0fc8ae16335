"""Token buckets: what a caller may ask at once, what comes back with time, and who is forgotten."""

import pytest

from link.errors import ClusterError, ClusterErrorKind
from link.rates import Buckets, Rate


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def takes(buckets: Buckets, caller: str, amount: float = 1) -> bool:
    """Whether a caller gets its tokens."""
    try:
        buckets.take(caller, amount, "calls")
    except ClusterError:
        return False
    return True


def test_a_burst_is_granted_and_comes_back_with_time() -> None:
    clock = Clock()
    buckets = Buckets(Rate(per_second=2, burst=3), clock=clock)
    assert [takes(buckets, "a") for _ in range(4)] == [True, True, True, False]
    clock.now = 0.5
    assert [takes(buckets, "a") for _ in range(2)] == [True, False]
    clock.now = 1_000
    assert [takes(buckets, "a") for _ in range(4)] == [True, True, True, False]


def test_what_is_refused_takes_nothing() -> None:
    buckets = Buckets(Rate(per_second=1, burst=3), clock=Clock())
    assert not takes(buckets, "a", 4)
    assert takes(buckets, "a", 3)


def test_a_refusal_says_how_long_to_wait() -> None:
    buckets = Buckets(Rate(per_second=2, burst=3), clock=Clock())
    with pytest.raises(ClusterError, match=r"wait 3\.5 s") as refused:
        buckets.take("a", 10, "calls")
    assert refused.value.kind is ClusterErrorKind.BUSY


def test_only_who_was_quiet_longest_is_forgotten() -> None:
    """Who is forgotten starts with a full bucket, so the newest callers must not be."""
    buckets = Buckets(Rate(per_second=0.001, burst=1), capacity=2, clock=Clock())
    for caller in ("a", "b", "c"):
        assert takes(buckets, caller)
    assert not takes(buckets, "c")
    assert not takes(buckets, "b")
    assert takes(buckets, "a")
    # A refused try counts as a sign of life too: it was "c" that was quiet longest.
    assert not takes(buckets, "b")
    assert takes(buckets, "c")
