"""The measurement of a provider: first the bandwidth, then several tries of a seeded program. Each try takes about a
quarter of a second.

The answer to a try has a digest of every piece, so a few pieces that are drawn afterwards show whether the provider
computed all of them. Providers that share a machine train at the same time and slow each other down, so providers that
ask together are also measured at the same time.

The median of the tries counts (of two tries, the slower one). A single try may show too high a speed, because the other
providers of the machine are idle, or too low a speed, because the machine does other work. Only the try that counts is
checked, so a provider gains nothing by inventing the answer to another try.

The caller supplies a steady clock (nanoseconds) and random bytes that no one could know before.
"""

from dataclasses import dataclass, replace
from hashlib import sha256

from domain.limits import PROBE_PIECES_MAX
from link.types import ProbeTask
from pol.rules.lots import draw
from pol.rules.probe import speed

TASK_NS = 30 * 10**9
"""Longest time (ns) in which a task must be answered."""
TARGET_NS = 25 * 10**7
"""Time (ns) that a try should take."""
TRIES = 3
TRIES_MAX = 8
"""Largest number of tries, including those that are too short to count."""
FIRST_PIECES = 2
GROWTH = 64
"""Largest number of pieces of the next try, as a multiple of the number of the last try."""
SAMPLED = 12
"""Number of pieces that the validator recomputes. With it, a provider that skips half of the pieces passes once in
4,096 times.
"""
WAY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Try:
    """A try that was answered in time."""

    seed: bytes
    digests: tuple[bytes, ...]
    speed: int  # FLOP/s


@dataclass(frozen=True, slots=True)
class Probe:
    """A measurement under way.

    While the bandwidth is measured, ``pieces`` is 0 and ``expected`` is the right answer.
    """

    provider: str
    asked_at: int
    expected: bytes
    seed: bytes = b""
    pieces: int = 0
    tries: int = 0
    bandwidth: int = 0
    counted: tuple[Try, ...] = ()

    @property
    def ends_at(self) -> int:
        """The time (monotonic ns) after which an answer to the open task is too late."""
        return self.asked_at + TASK_NS


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of a probe.

    ``sample`` has the drawn pieces with the digests that the provider gave. ``sure`` is True once these digests are
    known to be right.
    """

    provider: str
    speed: int  # FLOP/s
    bandwidth: int  # bytes/s
    seed: bytes
    sample: tuple[tuple[int, bytes], ...]
    sure: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """A probe that ended without a result."""

    reason: str


def begin(provider: str, data: bytes, now: int) -> tuple[Probe, ProbeTask]:
    """Return a new measurement and its first task, which measures the bandwidth.

    The right answer to this task is the hash of ``data``.
    """
    return Probe(provider, now, sha256(data).digest()), ProbeTask(data)


def go_on(
    probe: Probe, digests: tuple[bytes, ...], now: int, fresh: bytes
) -> tuple[Probe, ProbeTask] | ProbeResult | Failed:
    """Take the answer ``digests`` to the open task.

    Return the next task, the result, or the failure. ``fresh`` has new random bytes.
    """
    if now >= probe.ends_at:
        return Failed("the answer came too late")
    elapsed = now - probe.asked_at
    if not probe.pieces:
        if digests != (probe.expected,):
            return Failed("the answer is not the hash of the data that was sent")
        measured = replace(probe, bandwidth=WAY_BYTES * 10**9 // max(1, elapsed))
        return _ask(measured, FIRST_PIECES, now, fresh)
    if len(digests) != probe.pieces:
        return Failed(f"the answer has {len(digests)} digests, and the task had {probe.pieces} pieces")
    answered = Try(probe.seed, digests, speed(probe.pieces, elapsed))
    # A short try only sets the size of the next try: a machine may be faster for a moment.
    if elapsed >= TARGET_NS // 2 or probe.pieces == PROBE_PIECES_MAX:
        probe = replace(probe, counted=(*probe.counted, answered))
    probe = replace(probe, tries=probe.tries + 1)
    if not probe.counted or probe.tries < TRIES:
        if probe.tries == TRIES_MAX:
            return Failed("every try was too short to measure the speed")
        wanted = probe.pieces * TARGET_NS // max(1, elapsed)
        most = min(probe.pieces * GROWTH, PROBE_PIECES_MAX)
        return _ask(probe, max(1, min(wanted, most)), now, fresh)
    by_speed = sorted(probe.counted, key=lambda tried: tried.speed)
    middle = by_speed[(len(by_speed) - 1) // 2]
    drawn = sorted(draw(fresh, len(middle.digests), SAMPLED))
    sample = tuple((piece, middle.digests[piece]) for piece in drawn)
    return ProbeResult(
        provider=probe.provider,
        speed=middle.speed,
        bandwidth=probe.bandwidth,
        seed=middle.seed,
        sample=sample,
    )


def _ask(probe: Probe, pieces: int, now: int, seed: bytes) -> tuple[Probe, ProbeTask]:
    asked = replace(probe, asked_at=now, seed=seed, pieces=pieces)
    return asked, ProbeTask(seed=seed, pieces=pieces)
