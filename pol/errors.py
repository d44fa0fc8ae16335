"""Errors of jobs, states, programs, traces and training.

::

    Expected (domain.errors) |-- JobError                    a job is refused |   |-- TraceError              a trace
    file is refused |-- StateError                  bytes are not a state, or not the expected one |   |-- NotFinite a
    tensor holds NaN or infinity |-- ExecutionError              a program cannot run on this machine, or with these
    inputs |   |-- OutOfRange              a program used a row number that its table does not have |-- ReplayError
    training or replay cannot go on |   |-- RangeError              the job has no such round, slot or segment |   |--
    Cancelled               the caller cancelled the training |   |-- Stopped                 the job has no result, on
    any machine |   |   |-- StepFailed          a step has no result |   |   |   |-- NotFiniteStep |   |   |--
    UpdateFailed        the update of a share has no result |   |   |-- AggregationFailed   the end of a round has no
    result

For the same job and the same files, every machine raises the same error. Only an ExecutionError may differ, because its
cause may be the machine.
"""

from copy import copy

from domain.errors import Expected, printable
from pol.names import model_name


class JobError(Expected):
    """An error in a job. It has the field that is wrong, the reason, and a remedy for the author of the job.

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
        """Return a copy of the error whose ``field`` begins with ``prefix``.

        The prefix ``a`` turns ``b`` into ``a.b``, and ``[3]`` into ``a[3]``.
        """
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


class ProfileError(JobError):
    """An error in a profile of honest runs: it is not a profile, or it belongs to another job."""


class StateError(Expected):
    """An error in the bytes of a state: they do not encode a state, or they encode another state than the expected one.

    ``field`` names the tensor or the part of the file.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(printable(reason), field=printable(field))


class NotFinite(StateError):
    """An error in a state: a tensor holds NaN or infinity."""

    def __init__(self, field: str, reason: str = "holds NaN or infinity") -> None:
        super().__init__(model_name(field), reason)


class ExecutionError(Expected):
    """The error of a program that cannot run on this machine, or with these inputs.

    ``field`` names the input or the node.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason, field=field)


class OutOfRange(ExecutionError):
    """The error of a node that uses a row number that does not exist.

    The table of a ``take``, or the result of an ``add_rows``, does not have this row.
    """


class ReplayError(Expected):
    """The error of a training or a replay that cannot go on."""


class RangeError(ReplayError):
    """The error of a call that names a round, a slot or a segment that the job does not have."""


class Stopped(ReplayError):
    """The error of a job that has no result on any machine: a number is not finite, or a row number does not exist.

    Example::

        try:
            assay.run_locally("my-job")
        except assay.Stopped as error:
            print(error.field, error.reason)
    """

    def within(self, where: str) -> "Stopped":
        """Return a copy of the error whose ``field`` begins with ``where``."""
        inner = copy(self)
        inner.field = f"{where}, {self.field}"
        return inner


class UpdateFailed(Stopped):
    """The error of a share whose update is not finite. ``where`` names the tensor."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(reason, field=f"update, {where}")


class AggregationFailed(Stopped):
    """The error of a round whose aggregation has no result. ``where`` names the tensor or the node that failed."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(reason, field=f"aggregation, {where}")


class StepFailed(Stopped):
    """The error of an inner step that has no result.

    ``step`` is its number in the job, and ``where`` names the tensor or the node that failed.
    """

    def __init__(self, step: int, where: str, reason: str) -> None:
        super().__init__(reason, field=f"step {step}, {where}")
        self.step, self.where = step, where


class NotFiniteStep(StepFailed):
    """The error of a step whose result holds NaN or infinity."""


class Cancelled(ReplayError):
    """The error that ends a training after the caller cancelled it."""

    def __init__(self, reason: str = "training was cancelled") -> None:
        super().__init__(reason)
