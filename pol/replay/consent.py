"""The consent of a job to hardware arithmetic: the thresholds of a profile, as the job's part ``tolerance``."""

from dataclasses import replace
from pathlib import Path

from host.files import write_whole
from pol.errors import ProfileError
from pol.job.document import Job, dump_job, parse_job
from pol.job.load import load_document
from pol.job.paths import DOCUMENT
from pol.job.tolerance import TensorTolerance, Tolerance, measured_names
from pol.replay.profile import Profile

_REMEDY = "build the job without a profile, measure it with assay job calibrate, and build it again with this profile"


def tolerance_of(profile: Profile, job: Job) -> Tolerance:
    """Return the part ``tolerance`` of a job that a profile makes.

    Raises ProfileError, which names the field, if the profile was not measured on this job.
    """
    document = job.document
    if profile.segment_steps != document.segment_steps:
        reason = f"was measured on segments of {profile.segment_steps} steps, but the job's have "
        raise ProfileError("segment_steps", f"{reason}{document.segment_steps}", _REMEDY)
    states = document.global_tensors, document.local_tensors
    first, second = ([spec.name for spec in specs] for specs in states)
    names = measured_names(first, second, document.metrics)
    if [tensor.name for tensor in profile.tensors] != names:
        raise ProfileError("tensors", "are not the tensors and metrics of the job", _REMEDY)
    if profile.job != job.profiled_id:
        reason = f"is {profile.job.hex()[:12]}, but the job without thresholds is {job.profiled_id.hex()[:12]}"
        raise ProfileError("job", reason, _REMEDY)
    rows = (
        TensorTolerance(name=each.name, largest=each.threshold.largest, mean=each.threshold.mean)
        for each in profile.tensors
    )
    return Tolerance(precision=profile.precision, thresholds=tuple(rows))


def add_tolerance(directory: Path, profile: Profile) -> Job:
    """Write the thresholds of a profile into the job in a directory; return the job, which has another id.

    Raises ProfileError as :func:`tolerance_of` does. The directory is then unchanged.
    """
    job = load_document(directory)
    data = dump_job(replace(job.document, tolerance=tolerance_of(profile, job)))
    changed = parse_job(data)
    write_whole(directory / DOCUMENT, data)
    return changed
