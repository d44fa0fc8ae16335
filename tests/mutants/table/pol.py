"""Mutants of pol."""

from tests.mutants.mutant import Mutant
from tests.mutants.tests import COST

MUTANTS = (
    Mutant(
        "many-epochs",
        "a batch may go through the data a thousand times",
        "pol/limits.py",
        "epochs_per_batch: int = 2",
        "epochs_per_batch: int = 1024",
        (f"{COST}::test_a_batch_of_many_epochs_is_refused",),
    ),
    Mutant(
        "many-metrics",
        "a job has more metrics than the chain carries",
        "pol/limits.py",
        "metrics: int = METRICS_MAX",
        "metrics: int = 2 * METRICS_MAX",
        ("tests/unit/pol/job/test_document.py::test_a_job_has_no_more_metrics_than_the_chain_carries",),
    ),
    Mutant(
        "state-size",
        "a job may have states of 4 GiB only",
        "pol/limits.py",
        "    state_size: int = 64 * 2**30\n",
        "    state_size: int = 4 * 2**30\n",
        ("tests/unit/pol/job/test_document.py::test_a_state_has_up_to_64_gib",),
    ),
    Mutant(
        "live-size",
        "a step cannot change states at their bound",
        "pol/limits.py",
        "    live_size: int = 512 * 2**30\n",
        "    live_size: int = 128 * 2**30\n",
        ("tests/unit/pol/job/test_document.py::test_a_step_may_change_two_states_at_the_bound",),
    ),
)
