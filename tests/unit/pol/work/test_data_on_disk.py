"""Whoever trains or replays has no more memory for data that are large."""

import json
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
"""Bytes of data; what a step reads of them is little."""
ROW = 2**16
BOUND = 64 * 2**20
CHILD = """
import json, resource, sys
from pathlib import Path
from benchmarks.memory import memory, reset_peak
from pol.errors import JobError
from pol.executor.backend import backend
from pol.job.load import load_job
from pol.replay.replay import replay_segment
from pol.work.records import RoundSlot
from pol.work.train import train_share

executor, part = backend("numpy"), RoundSlot(0, 0)
before = memory("VmRSS")
reset_peak()
loaded = load_job(Path(sys.argv[1]))
states = loaded.global_state, loaded.local_state
share = train_share(loaded, part, *states, backend=executor)
replayed = replay_segment(loaded, part, 0, *states, executor)
assert replayed.boundary == share.boundaries[1]
grown = memory("VmHWM") - before
bound = memory("VmSize") + 2**25
resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
try:
    load_job(Path(sys.argv[1]))
    text = ""
except JobError as error:
    text = str(error)
print(json.dumps([grown, text]))
"""


def trained(job: Path) -> tuple[int, str]:
    """Return by how many bytes a process grew that trained and replayed, and why it cannot map the data again."""
    command = [sys.executable, "-c", CHILD, str(job)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    grown, text = json.loads(done.stdout)
    return grown, text


@pytest.mark.skipif(not memory.AVAILABLE, reason="this system does not say what a process had")
def test_memory_does_not_grow_with_the_data(tmp_path: Path) -> None:
    count = LARGE // ROW
    wide = np.broadcast_to(np.float32(0.5), (count, ROW // 4))
    write_mlp_job(tmp_path / "small", count)
    write_mlp_job(tmp_path / "large", count, more={"wide": wide})
    small, text = trained(tmp_path / "small")
    assert text == ""
    large, text = trained(tmp_path / "large")
    assert large < small + BOUND
    assert text.startswith(f"data: cannot be mapped ({os.strerror(ENOMEM)})")
