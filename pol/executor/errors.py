"""Errors of running a program; an output that is not finite is the same error as a state's."""

from domain.errors import Expected
from pol.state.errors import NotFinite


class ExecutionError(Expected):
    """A program cannot be run here, or with these inputs.

    Args:
        where: the input or node.
        reason: one sentence.
    """

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(reason, field=where)
        self.where = where


class OutOfRange(ExecutionError):
    """A ``take`` asked for a row that its table does not have: the job's fault, the same on every
    machine.
    """


__all__ = ["ExecutionError", "NotFinite", "OutOfRange"]
