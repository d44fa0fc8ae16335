"""The checked-in job with another division, so that tests of running need no torch."""

from pathlib import Path

from pol.job.load import load_job
from pol.job.write import JobSource
from pol.local.evaluate import load_holdout
from tests.unit.pol.datasets import all_rows

FIXTURE = Path(__file__).parents[2] / "fixtures" / "job_tiny"


def tiny_source(rounds: int, slots: int, round_steps: int) -> JobSource:
    """Return the checked-in job with so many rounds, slots and steps."""
    loaded = load_job(FIXTURE)
    old = loaded.job.document
    return JobSource(
        name=old.name,
        seed=old.seed,
        rounds=rounds,
        slots=slots,
        round_steps=round_steps,
        batch=old.batch,
        segment_steps=1,
        aggregation=old.aggregation,
        step=old.step,
        outer=old.outer,
        eval=old.eval,
        metrics=old.metrics,
        global_state=loaded.global_state,
        local_state=loaded.local_state,
        data=all_rows(loaded.data),
        holdout=load_holdout(FIXTURE, loaded.job),
    )
