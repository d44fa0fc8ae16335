"""Both sides of a case of the kernels do the same work."""

import numpy as np
import pytest
import torch

from benchmarks import kernels
from pol.executor.backend import backend
from pol.executor.names import BACKENDS, Engine


@pytest.mark.parametrize("name", BACKENDS)
def test_a_kernel_computes_what_the_library_computes(name: str) -> None:
    compared = []
    with torch.no_grad():
        for case in kernels.cases(backend(Engine(name))):
            ours, plain = case.ours(), case.plain()
            if isinstance(ours, dict) and isinstance(plain, dict):
                compared.append(case.name)
                for key, value in plain.items():
                    scale = float(value.abs().max())
                    np.testing.assert_allclose(
                        ours[f"global.{key}"],
                        value,
                        rtol=2e-3,
                        atol=1e-3 * scale,
                        err_msg=case.name,
                    )
    assert len(compared) == len(set(compared)) > 20


def test_a_case_is_a_row() -> None:
    work = [0, 0]

    def count(side: int) -> None:
        work[side] += 1
        sum(range(200_000))

    found = kernels.row(kernels.Case("sums", lambda: count(0), lambda: count(1)), "native")
    assert found.case.startswith("sums, native (")
    assert min(work) > kernels.TURNS
    assert found.ratio == pytest.approx(1, abs=0.5)
