"""The consumer's one error."""


class ConsumerError(Exception):
    """Something the consumer asked for cannot be done: the reason and the remedy, one sentence each."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        """Keep the parts; the text joins them."""
        self.reason = reason
        self.remedy = remedy
        super().__init__(f"{reason}; {remedy}" if remedy else reason)


class StillWaiting(ConsumerError):
    """A deadline of the caller's passed before it happened; the same call goes on where this one stopped."""
