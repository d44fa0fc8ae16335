"""Points in time and spans of time as protobuf writes them. The time is that of block headers."""

from dataclasses import dataclass
from typing import Annotated

from domain.bounds import Range

NS = 1_000_000_000
FIRST_SECOND = -62_135_596_800
"""The first second of the year 1, which programs in Go send for "no time"."""
LAST_SECOND = 253_402_300_799
"""The last second of the year 9999."""
SPAN_MAX = 10_000 * 366 * 86_400

Nanos = Annotated[int, Range(0, NS - 1)]
TimeNs = Annotated[int, Range(FIRST_SECOND * NS, (LAST_SECOND + 1) * NS)]
"""A point in time, in nanoseconds since 1970."""
SpanNs = Annotated[int, Range(0, (SPAN_MAX + 1) * NS)]
"""A span of time, in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A point in time (``google.protobuf.Timestamp``): seconds since 1970 and nanoseconds."""

    seconds: Annotated[int, Range(FIRST_SECOND, LAST_SECOND)]
    nanos: Nanos = 0

    @property
    def ns(self) -> int:
        """The time in nanoseconds since 1970."""
        return self.seconds * NS + self.nanos


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A span of time (``google.protobuf.Duration``) in seconds and nanoseconds."""

    seconds: Annotated[int, Range(0, SPAN_MAX)]
    nanos: Nanos = 0

    @property
    def ns(self) -> int:
        """The span in nanoseconds."""
        return self.seconds * NS + self.nanos
