"""How jobs, states, programs and traces fail.

::

    Expected                                                        (domain.errors)
    ├── JobError             a job is refused
    │   └── TraceError       so is a trace file
    ├── StateError           bytes are not a state, or not the one asked for
    │   └── NotFinite        a tensor holds NaN or infinity
    ├── ExecutionError       a program cannot be run here, or with these inputs
    │   └── OutOfRange       the job asked a table for a row that it does not have
    └── ReplayError          training or replay cannot go on
        ├── RangeError       the round, slot or segment is not one of the job's
        ├── Stopped          the job has no result there, whoever does it
        │   ├── StepFailed   of a step
        │   │   └── NotFiniteStep
        │   ├── UpdateFailed         of a share's update
        │   └── AggregationFailed    of the end of a round
        └── Cancelled        the caller asked for an end

All but the machine's part of ExecutionError are the same on every machine.
"""

from copy import copy

from domain.errors import Expected, printable
from pol.names import model_name


class JobError(Expected):
    """A job is refused: which field is wrong, why, and what whoever wrote the job can do.

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
    """A file is not a trace, or not one of this job.

    Example::

        try:
            trace = assay.load_trace("my-job/run/trace.json")
        except assay.TraceError as error:
            print(error.field, error.reason, error.remedy)
    """


class StateError(Expected):
    """Bytes are not a state, or not the one asked for; ``field`` is the tensor or the part of the file."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(printable(reason), field=printable(field))


class NotFinite(StateError):
    """A tensor holds NaN or infinity."""

    def __init__(self, field: str, reason: str = "holds NaN or infinity") -> None:
        super().__init__(model_name(field), reason)


class ExecutionError(Expected):
    """A program cannot be run here, or with these inputs; ``field`` is the input or the node."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason, field=field)


class OutOfRange(ExecutionError):
    """A ``take`` asked for a row that its table does not have, or an ``add_rows`` for one of its result."""


class ReplayError(Expected):
    """Training or replay cannot go on."""


class RangeError(ReplayError):
    """A round, a slot or a segment is not one of the job's."""


class Stopped(ReplayError):
    """The job has no result at some place, on any machine: something is not finite, or a row is not there.

    Example::

        try:
            assay.run_locally("my-job")
        except assay.Stopped as error:
            print(error.field, error.reason)
    """

    def within(self, where: str) -> "Stopped":
        """Return the same error with what the place is in put before it."""
        inner = copy(self)
        inner.field = f"{where}, {self.field}"
        return inner


class UpdateFailed(Stopped):
    """The update of a share is not finite, in the tensor ``where``."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(reason, field=f"update, {where}")


class AggregationFailed(Stopped):
    """The end of a round has no result, because of ``where``: a tensor or node."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(reason, field=f"aggregation, {where}")


class StepFailed(Stopped):
    """The inner step ``step`` of the job has no result, because of ``where``: a tensor or node."""

    def __init__(self, step: int, where: str, reason: str) -> None:
        super().__init__(reason, field=f"step {step}, {where}")
        self.step, self.where = step, where


class NotFiniteStep(StepFailed):
    """A step's result holds NaN or infinity."""


class Cancelled(ReplayError):
    """The caller asked for an end."""

    def __init__(self, reason: str = "training was cancelled") -> None:
        super().__init__(reason)
