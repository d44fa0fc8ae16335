"""Errors of states and tensor files."""

from domain.errors import Expected
from pol.job.errors import printable


class StateError(Expected):
    """Bytes are not a state, or not the state that was asked for.

    Args:
        where: the tensor, or the part of the file (``header``, ``chunk 3``).
        reason: one sentence.
    """

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(printable(reason), field=printable(where))
        self.where = self.field


class NotFinite(StateError):
    """A tensor holds NaN or infinity."""

    def __init__(self, where: str, reason: str = "It holds NaN or infinity.") -> None:
        super().__init__(where, reason)
