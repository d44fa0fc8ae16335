"""Errors of states and tensor files."""

from pol.job.errors import printable


class StateError(Exception):
    """Bytes are not a state, or not the state that was asked for.

    Args:
        where: the tensor, or the part of the file (``header``, ``chunk 3``).
        reason: one sentence.
    """

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)  # both, so that the error survives a process pool
        self.where = printable(where)
        self.reason = printable(reason)

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class NotFinite(StateError):
    """A tensor holds NaN or infinity."""

    def __init__(self, where: str, reason: str = "It holds NaN or infinity.") -> None:
        super().__init__(where, reason)
