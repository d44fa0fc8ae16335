"""The checked-in job, which needs no torch."""

from pathlib import Path

import pytest

from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.load import LoadedJob, load_job
from pol.state.arrays import State
from pol.work.records import Boundary, RoundSlot, TrainedShare
from pol.work.train import train_share

FIXTURE = Path(__file__).parents[3] / "fixtures" / "job_tiny"
SHARE = RoundSlot(1, 1)

States = list[tuple[Boundary, State, State]]


@pytest.fixture(scope="session")
def loaded() -> LoadedJob:
    return load_job(FIXTURE)


@pytest.fixture(scope="session")
def trained(loaded: LoadedJob) -> tuple[TrainedShare, States]:
    """The second slot's share of the second round, and every boundary with its states."""
    states: States = []
    share = train_share(
        loaded,
        SHARE,
        loaded.global_state,
        loaded.local_state,
        backend=backend(Engine("numpy")),
        on_boundary=lambda boundary, first, second: states.append((boundary, first, second)),
    )
    return share, states
