"""Custom update rules, several optimizers, gradients at other weights, and alternating losses."""

from collections.abc import Callable
from pathlib import Path
from runpy import run_path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

import assay
from benchmarks.catalogue.rows import CLASSES, VECTORS, Batch, Make, OfModel, Row, job, linear

_RULES = run_path(str(Path(__file__).parents[2] / "examples" / "optimizers.py"))
_ADAM: dict[str, Any] = {
    "lr": 0.01,
    "state": {"mean": 0.0, "square": 0.0},
    "betas": (0.9, 0.999),
    "eps": 1e-6,
    "weight_decay": 0.01,
}


def _moved_by(make: Callable[[nn.Module], Any]) -> Make:
    return job(
        lambda: nn.Sequential(linear(), nn.ReLU(), nn.Linear(16, CLASSES)),
        VECTORS,
        optimizer=OfModel(make),
        schedule=None,
    )


def _rule(name: str, **options: Any) -> Make:
    return _moved_by(lambda model: assay.update_rule(_RULES[name], model.parameters(), **options))


def _lookahead(model: nn.Module) -> assay.UpdateRule:
    state = {**_ADAM["state"], "slow": torch.clone}
    rule = _RULES["lookahead"](_RULES["adamw"], k=2)
    return assay.update_rule(rule, model.parameters(), **_ADAM | {"state": state})


def _shared_out(model: nn.Module) -> list[torch.optim.Optimizer]:
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    return [torch.optim.Muon(matrices, 0.02), torch.optim.AdamW(others, 0.01)]


def _sharp(model: nn.Module) -> assay.SAM:
    return assay.SAM(torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), rho=0.1)


class _Gan(nn.Module):
    """A generator, which makes vectors from noise, and a discriminator, which distinguishes them from the data."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 16))
        self.critic = nn.Sequential(nn.Linear(16, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def forward(self, rows: int) -> Tensor:
        found: Tensor = self.generator(torch.randn(rows, 4))
        return found


def _told_apart(model: Any, batch: Batch) -> Tensor:
    real, fake = model.critic(batch["x"]), model.critic(model(len(batch["x"])).detach())
    loss = F.binary_cross_entropy_with_logits
    return loss(real, torch.ones_like(real)) + loss(fake, torch.zeros_like(fake))


def _taken_for_real(model: Any, batch: Batch) -> Tensor:
    fake = model.critic(model(len(batch["x"])))
    return F.binary_cross_entropy_with_logits(fake, torch.ones_like(fake))


def _in_turn(repeat: int) -> Make:
    def make() -> assay.JobSpec:
        torch.manual_seed(7)
        model, columns = _Gan(), VECTORS()
        of_critic, of_generator = (
            torch.optim.Adam(part.parameters(), 1e-3, (0.5, 0.999)) for part in (model.critic, model.generator)
        )
        return assay.JobSpec(
            name="row",
            model=model,
            phases={
                "critic": assay.Phase(loss=_told_apart, optimizer=of_critic, repeat=repeat),
                "generator": assay.Phase(loss=_taken_for_real, optimizer=of_generator),
            },
            train=columns,
            holdout={name: column[:4] for name, column in columns.items()},
            steps=2,
            batch=4 * repeat,
            seed=3,
            weights="keep",
        )

    return make


UPDATES: tuple[Row, ...] = (
    ("optim.Muon and optim.AdamW in a list", _moved_by(_shared_out)),
    ("update_rule, LAMB", _rule("lamb", **_ADAM)),
    (
        "update_rule, Adafactor of transformers",
        _rule("adafactor", state=_RULES["adafactor_state"], relative_step=True),
    ),
    ("update_rule, Lookahead", _moved_by(_lookahead)),
    ("assay.SAM", _moved_by(_sharp)),
    ("GAN in two phases", _in_turn(1)),
    ("GAN, three updates of the critic", _in_turn(3)),
)
