"""Kernels of chains, run by Triton's interpreter in a process of its own, against the reference.

``TRITON_INTERPRET=1 python -m tests.unit.pol.executor.interpreted`` prints what is wrong, and how many kernels it was.
"""

import json

import numpy as np
import torch

from pol.executor import triton_chains
from pol.executor.backend import torch_on
from pol.executor.known_program import KNOWN, answer
from pol.executor.numpy_backend import NumpyBackend
from pol.executor.torch_backend import TorchBackend, chains_on
from tests.support.chains import random_chain
from tests.support.programs import observed, outcome, shown
from tests.vectors.arithmetic.cases import answer as answer_to
from tests.vectors.arithmetic.cases import asked, read
from tests.vectors.arithmetic.check import compare

CHAINS, PROGRAMS = 24, 8


def main() -> None:
    triton_chains.KERNELS_MAX = 1_000_000
    # a kernel for every single node, too
    triton_chains.STEPS_MIN = 1
    executor, reference = TorchBackend("cpu", chains=chains_on("cpu")), NumpyBackend()
    wrong = [
        f"{family} {index}"
        for family in ("elementwise", "functions")
        for index, case in enumerate(read(family))
        if compare(case, answer_to(executor, asked(case)))
    ]
    for seed in range(CHAINS):
        program, inputs = random_chain(np.random.default_rng(seed))
        if outcome(executor, program, inputs) != outcome(reference, program, inputs):
            wrong.append(f"chain {seed}")
    triton_chains.STEPS_MIN = 2
    for seed in range(PROGRAMS):
        program, inputs = shown(np.random.default_rng(seed))
        if observed(executor, program, inputs) != observed(reference, program, inputs):
            wrong.append(f"program {seed}")
    if answer(executor) != KNOWN:
        wrong.append("the known program")
    chosen = torch_on("cpu:0")
    assert isinstance(chosen, TorchBackend)
    if not (executor.in_chains and chosen.in_chains):
        wrong.append("nodes ran one by one")
    print(json.dumps({"wrong": wrong, "kernels": len(triton_chains._kernels)}))


if __name__ == "__main__":
    torch.set_num_threads(1)
    with np.errstate(all="ignore"):
        main()
