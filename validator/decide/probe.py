"""How a provider is measured: the way to it, then pieces of a seeded program, for a quarter of a second each try.

What it answers with names every piece, so that a few which are drawn afterwards show whether all were worked out. What
counts is what it does beside its neighbours, because that is how it will train: those that ask together are measured
side by side, and of the tries the middle one counts, the slower one of two. A moment in which a neighbour was idle
makes one try faster, and a moment in which the machine did something else makes one slower; neither is a speed to plan
with. Only a try that counts is checked, so a try that was made up wins nothing. The caller has a steady clock
(nanoseconds) and bytes that nobody knows before.
"""

from dataclasses import dataclass, replace
from hashlib import sha256

from domain.limits import PROBE_PIECES_MAX
from link.types import ProbeTask
from pol.rules.lots import draw
from pol.rules.probe import speed

TASK_NS = 30 * 10**9
"""The longest that a task may take."""
TARGET_NS = 25 * 10**7
"""What one should take."""
TRIES = 3
TRIES_MAX = 8
"""Where they are too short at first."""
FIRST_PIECES = 2
GROWTH = 64
"""How many times as many pieces the next try has at most."""
SAMPLED = 12
"""Pieces that the validator works out itself: who skips half of them passes once in 4,096 times."""
WAY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Try:
    """A try that was answered in time."""

    seed: bytes
    digests: tuple[bytes, ...]
    speed: int  # FLOP/s


@dataclass(frozen=True, slots=True)
class Probe:
    """A measurement under way. ``pieces`` is 0 while the way is measured, ``expected`` is what comes of that."""

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
        """When the task that was given is not waited for any more."""
        return self.asked_at + TASK_NS


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a probe found; ``sample`` are drawn pieces with what was answered, and ``sure`` after they were compared."""

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
    """Begin with the way."""
    return Probe(provider, now, sha256(data).digest()), ProbeTask(data)


def go_on(
    probe: Probe, digests: tuple[bytes, ...], now: int, fresh: bytes
) -> tuple[Probe, ProbeTask] | ProbeResult | Failed:
    """Take an answer, and return the next task or the end; ``fresh`` was drawn after the answer came."""
    if now >= probe.ends_at:
        return Failed("the answer came too late")
    taken = now - probe.asked_at
    if not probe.pieces:
        if digests != (probe.expected,):
            return Failed("this is not the hash of what was sent")
        measured = replace(probe, bandwidth=WAY_BYTES * 10**9 // max(1, taken))
        return _ask(measured, FIRST_PIECES, now, fresh)
    if len(digests) != probe.pieces:
        return Failed(f"{len(digests)} digests of {probe.pieces} pieces")
    answered = Try(probe.seed, digests, speed(probe.pieces, taken))
    # A machine may be faster for a moment: a short try only says how large the next one is.
    if taken >= TARGET_NS // 2 or probe.pieces == PROBE_PIECES_MAX:
        probe = replace(probe, counted=(*probe.counted, answered))
    probe = replace(probe, tries=probe.tries + 1)
    if not probe.counted or probe.tries < TRIES:
        if probe.tries == TRIES_MAX:
            return Failed("every try was shorter than it should be")
        wanted = probe.pieces * TARGET_NS // max(1, taken)
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
