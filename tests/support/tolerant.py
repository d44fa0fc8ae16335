"""Jobs with the part ``tolerance``: a copy of a job with thresholds that honest runs were measured to need."""

import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

from pol.executor.hardware import HALVES, REVERSED, Hardware
from pol.job.document import JobDocument, dump_job
from pol.job.load import load_document
from pol.job.paths import DOCUMENT
from pol.job.tolerance import TensorTolerance, Tolerance
from pol.replay.calibrate import measure
from pol.replay.controls import HardwareControl
from pol.replay.profile import Profile
from pol.rules.tolerance import FP32

CONTROLS = tuple(HardwareControl(Hardware(order=order, threads=1)) for order in ("forward", REVERSED, HALVES))


def tolerance_of(profile: Profile) -> Tolerance:
    """Return the part of a job that consents to a profile."""
    rows = tuple(
        TensorTolerance(name, threshold.largest, threshold.mean) for name, threshold in profile.thresholds.items()
    )
    return Tolerance(precision=profile.precision, thresholds=rows)


def tolerant(job: Path, to: Path, precision: str = FP32) -> Path:
    """Copy a job to a folder, measure honest runs, and add the part ``tolerance``; return the folder."""
    profile = measure(job, CONTROLS, segments=8, random=Random(1)).profile()
    shutil.copytree(job, to)
    rewrite(to, replace(load_document(to).document, tolerance=replace(tolerance_of(profile), precision=precision)))
    return to


def rewrite(job: Path, document: JobDocument) -> None:
    """Write another document into a job's folder."""
    (job / DOCUMENT).write_bytes(dump_job(document))
