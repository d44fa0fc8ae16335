"""Workers of daemons compute on a GPU inside the sandbox, with the bits of a processor.

Like :mod:`tests.gpu.test_gpu`, this is to be run on a machine with a GPU. Elsewhere it is skipped, and pytest says so.
"""

import os
from pathlib import Path

import pytest
import torch

from compute_provider.work.bench import measure_speed
from compute_provider.work.worker import LOCAL_OUT, UPDATE
from pol.executor.backend import backend
from pol.executor.names import NATIVE, NUMPY, TORCH, Engine
from pol.job.load import load_job
from pol.state.canonical import encode_state
from pol.work.pool import ReplayPool
from pol.work.probe import work_pieces
from pol.work.train import train_share
from tests.unit.compute_provider.support import TINY
from tests.unit.compute_provider.work.training import PART, Listener, order

ENGINE = Engine(TORCH, os.environ.get("ASSAY_GPU", "cuda"))
SECONDS = 120.0

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU on this machine")


def pieces(engine: Engine) -> list[bytes]:
    return list(work_pieces(b"seed", range(3), backend(engine)))


def test_a_share_is_trained(tmp_path: Path) -> None:
    loaded = load_job(TINY)
    right = train_share(loaded, PART, loaded.global_state, loaded.local_state, backend=backend(Engine(NATIVE)))
    listener = Listener(tmp_path)
    done = listener.run(order(tmp_path, engine=ENGINE), seconds=SECONDS)
    assert "done" in done, (done, (tmp_path / "worker.log").read_text())
    assert listener.said[0]["ready"]["open"] == []
    assert [boundary.root for boundary in listener.boundaries()] == [boundary.root for boundary in right.boundaries]
    assert (tmp_path / UPDATE).read_bytes() == encode_state(right.update)
    assert (tmp_path / LOCAL_OUT).read_bytes() == encode_state(right.local_out)


def test_a_pool_recomputes(tmp_path: Path) -> None:
    with ReplayPool(1, folder=tmp_path, device=ENGINE.device) as pool:
        found = pool.submit(pieces, ENGINE).result(SECONDS)
    assert found == pieces(Engine(NUMPY))


def test_the_speed_is_measured() -> None:
    measured = measure_speed(ENGINE, seconds=1)
    assert measured.flops > 0
    assert measured.open_ends == ()
