"""A limit on the number of threads of all libraries that compute in a benchmark."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits

from pol.executor.native_backend import THREADS


@contextmanager
def limited(count: int) -> Iterator[None]:
    """Let torch, BLAS, and native executors that are created in the ``with`` block use ``count`` threads."""
    before = os.environ.get(THREADS)
    os.environ[THREADS] = str(count)
    torch.set_num_threads(count)
    try:
        with threadpool_limits(count):
            yield
    finally:
        if before is None:
            del os.environ[THREADS]
        else:
            os.environ[THREADS] = before
