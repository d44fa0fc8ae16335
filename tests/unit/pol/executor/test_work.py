"""The product part of the table is what torch counts; the same model in both."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.unit.pol import mlp


def test_products_equal_flop_counter() -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(mlp.INPUTS, mlp.HIDDEN),
        torch.nn.LayerNorm(mlp.HIDDEN),
        torch.nn.GELU(),
        torch.nn.Dropout(0.1),
        torch.nn.Linear(mlp.HIDDEN, mlp.CLASSES),
    )
    data = mlp.rows(mlp.BATCH)
    with FlopCounterMode(display=False) as counter:
        logits = model(torch.from_numpy(data["x"]))
        loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(data["y"]))
        loss.backward()  # type: ignore[no-untyped-call]
    work = mlp.step_program().work
    assert work.products == counter.get_total_flops()
    assert work.flops > work.products
