"""Whoever trains or replays has no more memory for data that are large."""

import os
import subprocess
import sys
from errno import ENOMEM
from pathlib import Path

import numpy as np
import pytest

from benchmarks import memory
from tests.unit.pol.mlp import write_mlp_job

LARGE = 256 * 2**20
"""Bytes of data."""
BOUND = 64 * 2**20
"""Bytes of memory for loading, training and replaying, and far fewer than that of addresses for loading again."""
ROW = 2**16
CHILD = """
import resource, sys
from pathlib import Path
from benchmarks.memory import memory
from host.sandbox import memory_bound
from pol.errors import JobError
from pol.executor.backend import backend
from pol.executor.names import Engine
from pol.job.load import load_job
from pol.replay.replay import replay_segment
from pol.work.records import RoundSlot
from pol.work.train import train_share

folder, bound = Path(sys.argv[1]), int(sys.argv[2])
executor, part = backend(Engine("numpy")), RoundSlot(0, 0)
with memory_bound(bound):
    loaded = load_job(folder)
    states = loaded.global_state, loaded.local_state
    share = train_share(loaded, part, *states, backend=executor)
    replayed = replay_segment(loaded, part, 0, *states, executor)
assert replayed.boundary == share.boundaries[1]
addresses = memory("VmSize") + bound
resource.setrlimit(resource.RLIMIT_AS, (addresses, addresses))
try:
    load_job(folder)
except JobError as error:
    print(error)
"""


@pytest.mark.skipif(not memory.AVAILABLE, reason="this system does not bound what a process has")
def test_data_are_no_memory_of_who_trains_and_replays(tmp_path: Path) -> None:
    count = LARGE // ROW
    wide = np.broadcast_to(np.float32(0.5), (count, ROW // 4))
    write_mlp_job(tmp_path, count, shard_rows=count, more={"wide": wide})
    command = [sys.executable, "-c", CHILD, str(tmp_path), str(BOUND)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout.startswith(f"data: cannot be mapped ({os.strerror(ENOMEM)})")
