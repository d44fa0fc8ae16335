"""Errors of jobs, states, programs, traces and training.

::

    Expected (domain.errors)
    |-- JobError                    a job is refused
    |   |-- TraceError              a trace file is refused
    |-- StateError                  bytes are not a state, or not the expected one
    |   |-- NotFinite               a tensor holds NaN or infinity
    |-- ExecutionError              a program cannot run on this machine, or with these inputs
    |   |-- OutOfRange              a program used a row number that its table does not have
    |-- ReplayError                 training or replay cannot go on
    |   |-- RangeError              the job has no such round, slot or segment
    |   |-- Cancelled               the caller cancelled the training
    |   |-- Stopped                 the job has no result, on any machine
    |   |   |-- StepFailed          a step has no result
    |   |   |   |-- NotFiniteStep
    |   |   |-- UpdateFailed        the update of a share has no result
    |   |   |-- AggregationFailed   the end of a round has no result

Every machine raises the same error for the same job and the same files. The exception is an ExecutionError whose cause
is the machine.
"""

from copy import copy

from domain.errors import Expected, printable
from pol.names import model_name


class JobError(Expected):
    """An error in a job: the field that is wrong, the reason, and what the author of the job can do.

    ``field`` is a path in the job document, such as ``step.nodes[17].attrs.dims``, or the name of a file.

    Example::

        try:
            assay.build_job(job, "my-job")
        except assay.JobError as error:
            print(error.field, error.reason, error.remedy)
    """

    def __init__(self, field: str, reason: str, remedy: str) -> None:
        super().__init__(printable(reason), remedy, field=printable(field))

    def under(self, prefix: str) -> "JobError":
        """Return the same error with ``prefix`` put before the field (``a.b`` or ``a[3]``)."""
        joint = "." if self.field and not self.field.startswith("[") else ""
        return JobError(f"{prefix}{joint}{self.field}", self.reason, self.remedy)


class TraceError(JobError):
    """An error in a trace file: it is not a trace, or it belongs to another job.

    Example::

        try:
            trace = assay.load_trace("my-job/run/trace.json")
        except assay.TraceError as error:
            print(error.field, error.reason, error.remedy)
    """


class StateError(Expected):
    """Bytes that are not a state, or not the expected one; ``field`` is the tensor or the part of the file."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(printable(reason), field=printable(field))


class NotFinite(StateError):
    """A tensor holds NaN or infinity."""

    def __init__(self, field: str, reason: str = "holds NaN or infinity") -> None:
        super().__init__(model_name(field), reason)


class ExecutionError(Expected):
    """A program that cannot run on this machine, or with these inputs; ``field`` is the input or the node."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason, field=field)


class OutOfRange(ExecutionError):
    """A row number that does not exist in the table of a ``take``, or in the result of an ``add_rows``."""


class ReplayError(Expected):
    """Training or replay cannot go on."""


class RangeError(ReplayError):
    """A round, a slot or a segment that the job does not have."""


class Stopped(ReplayError):
    """A job that has no result, on any machine: a number is not finite, or a row number does not exist.

    Example::

        try:
            assay.run_locally("my-job")
        except assay.Stopped as error:
            print(error.field, error.reason)
    """

    def within(self, where: str) -> "Stopped":
        """Return the same error with ``where`` put before its field."""
        inner = copy(self)
        inner.field = f"{where}, {self.field}"
        return inner


class UpdateFailed(Stopped):
    """The update of a share is not finite, in the tensor ``where``."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(reason, field=f"update, {where}")


class AggregationFailed(Stopped):
    """The end of a round has no result, because of the tensor or node ``where``."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(reason, field=f"aggregation, {where}")


class StepFailed(Stopped):
    """The inner step ``step`` of the job has no result, because of the tensor or node ``where``."""

    def __init__(self, step: int, where: str, reason: str) -> None:
        super().__init__(reason, field=f"step {step}, {where}")
        self.step, self.where = step, where


class NotFiniteStep(StepFailed):
    """A step's result holds NaN or infinity."""


class Cancelled(ReplayError):
    """The caller cancelled the training."""

    def __init__(self, reason: str = "training was cancelled") -> None:
        super().__init__(reason)
