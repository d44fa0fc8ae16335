"""The consumer's one error."""

from domain.errors import Exit, Expected


class ConsumerError(Expected):
    """Something the consumer asked for cannot be done: the reason and the remedy, one sentence each."""


class StillWaiting(ConsumerError):
    """A deadline of the caller's passed before it happened; the same call goes on where this one stopped."""

    exit_code = Exit.TIMED_OUT
