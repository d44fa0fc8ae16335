"""The canonical bytes and tree of a state, and a small job from fixed arrays."""

import json
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from domain.codec import to_plain
from pol.job.document import order_terms
from pol.job.paths import DOCUMENT
from pol.job.program import ProgramBuilder
from pol.job.updates import CLOSING
from pol.job.write import JobSource, write_job
from pol.state.arrays import Array
from pol.state.canonical import chunks_of, encode_state, state_tree

ROWS = 24


def numbers(*shape: int) -> Array:
    """Return different FP32 numbers that every machine makes alike: multiples of 1/64."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 37 % 1_001).astype(np.float32) / np.float32(64)).reshape(shape)


def build_state() -> Any:
    """Return the chunks of a state whose largest tensor has several."""
    state = {
        "z": np.array([-5, 2**40], np.int64),
        "a.weight": numbers(200, 201),
        "a.mask": np.array([True, False, True]),
        "scalar": np.array(-0.0, np.float32),
    }
    encoded = encode_state(state)
    chunks, tree = chunks_of(encoded), state_tree(state)
    return {
        "header": chunks[0].hex(),
        "size": len(encoded),
        "sha256": sha256(encoded).hexdigest(),
        "chunk_sizes": [len(chunk) for chunk in chunks],
        "leaves": [leaf.hex() for leaf in tree.leaves],
        "root": tree.root.hex(),
    }


def build_job() -> Any:
    """Return id, document, terms and files of a job."""
    with TemporaryDirectory() as folder:
        job = write_job(Path(folder), _source())
        paths = sorted(path for path in Path(folder).rglob("*") if path.is_file())
        files = {path.relative_to(folder).as_posix(): sha256(path.read_bytes()).hexdigest() for path in paths}
        document = json.loads((Path(folder) / DOCUMENT).read_bytes())
    return {
        "job_id": job.id.hex(),
        "terms": to_plain(order_terms(job)),
        "files": files,
        "document": document,
    }


def _source() -> JobSource:
    """A linear model under squared loss, whose slots are averaged."""
    step, outer, evaluate = ProgramBuilder(), ProgramBuilder(), ProgramBuilder()
    weight, x, y = (
        step.input("global.w", "f32", (5, 1)),
        step.input("batch.x", "f32", (4, 5)),
        step.input("batch.y", "f32", (4, 1)),
    )
    wrong = step.node("sub", step.node("matmul", x, weight, bits=15), y)
    turned = step.node("permute", x, dims=[1, 0])
    rate = step.constant("f32", (), np.array(0.125, "<f4").tobytes())
    move = step.node("mul", step.node("matmul", turned, wrong, bits=15), rate)
    step.output("global.w", step.node("sub", weight, move))
    squared = step.node("mul", wrong, wrong)
    step.output("metric.loss", step.node("sum", squared, dims=[0, 1], keepdim=False))
    outer.output("global.w", outer.input("aggregate.w", "f32", (5, 1)))
    found = evaluate.input("batch.y", "f32", (4, 1))
    total = evaluate.node("sum", found, dims=[0, 1], keepdim=False)
    evaluate.output("metric.loss", total)
    return JobSource(
        name="vectors",
        seed=11,
        rounds=2,
        slots=2,
        round_steps=4,
        batch=4,
        segment_steps=2,
        aggregation=CLOSING,
        step=step.build(),
        outer=outer.build(),
        eval=evaluate.build(),
        metrics=("loss",),
        global_state={"w": numbers(5, 1)},
        local_state={},
        data={"x": numbers(ROWS, 5), "y": numbers(ROWS, 1)},
        holdout={"x": numbers(4, 5), "y": numbers(4, 1)},
        shard_rows=16,
    )
