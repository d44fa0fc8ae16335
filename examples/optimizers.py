"""Custom update rules: a small network whose matrices are trained by Muon and its other weights by LAMB.

    assay job build examples/optimizers.py -o optimizers-job

Each rule is a function (parameter, gradient, state, step) that returns (parameter, state), and follows its paper. You
can give each rule to assay.update_rule for your own model, in a job or in a plain torch loop.
"""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import assay

State = dict[str, Tensor]
Rule = Callable[[Tensor, Tensor, State, assay.RuleStep], tuple[Tensor, Mapping[str, Tensor]]]


def muon(parameter: Tensor, gradient: Tensor, state: State, step: assay.RuleStep) -> tuple[Tensor, State]:
    """Apply Muon (Jordan 2024), for matrices only. Arguments: state={"momentum": 0.0}, weight_decay=, beta=."""
    beta = step.options["beta"]
    momentum = beta * state["momentum"] + (1.0 - beta) * gradient
    matrix = beta * momentum + (1.0 - beta) * gradient
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if is_tall else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * (gram @ gram)) @ x
    x = x.T if is_tall else x
    scale = max(1.0, matrix.shape[0] / matrix.shape[1]) ** 0.5
    kept = parameter * (1.0 - step.lr * step.options["weight_decay"])
    return kept - step.lr * scale * x, {"momentum": momentum}


def adamw(parameter: Tensor, gradient: Tensor, state: State, step: assay.RuleStep) -> tuple[Tensor, State]:
    """Apply AdamW (arXiv 1711.05101). Arguments: state={"mean": 0.0, "square": 0.0}, betas=, eps=, weight_decay=."""
    (beta1, beta2), count = step.options["betas"], step.number + 1
    mean = beta1 * state["mean"] + (1.0 - beta1) * gradient
    square = beta2 * state["square"] + (1.0 - beta2) * gradient**2
    direction = mean / (1.0 - beta1**count)
    root = torch.sqrt(square / (1.0 - beta2**count)) + step.options["eps"]
    kept = parameter * (1.0 - step.lr * step.options["weight_decay"])
    return kept - step.lr * direction / root, {"mean": mean, "square": square}


def lamb(parameter: Tensor, gradient: Tensor, state: State, step: assay.RuleStep) -> tuple[Tensor, State]:
    """Apply LAMB (arXiv 1904.00962): Adam's step, scaled to the parameter's norm. Its arguments are those of AdamW.

    This is algorithm 2 of the paper's last version. Both means are corrected for their start at 0, weight decay is part
    of the scaled step, and the parameter's norm has no bounds. timm's Lamb(..., max_grad_norm=None, always_adapt=True)
    is the same. The Lamb of pytorch-optimizer is another variant: it divides the learning rate, not the mean, by
    1 - beta1**count, so its first steps are up to ten times as long, and it bounds the norm at 10.
    """
    (beta1, beta2), count = step.options["betas"], step.number + 1
    mean = beta1 * state["mean"] + (1.0 - beta1) * gradient
    square = beta2 * state["square"] + (1.0 - beta2) * gradient**2
    root = torch.sqrt(square / (1.0 - beta2**count)) + step.options["eps"]
    move = mean / (1.0 - beta1**count) / root + step.options["weight_decay"] * parameter
    length, moved = parameter.norm(), move.norm()
    trust = torch.where((length > 0) & (moved > 0), length / moved, 1.0)
    return parameter - step.lr * trust * move, {"mean": mean, "square": square}


def adafactor_state(parameter: Tensor) -> State:
    """Return Adafactor's initial state, which is zero: for a matrix, mean squares per row and per column."""
    if parameter.dim() < 2:
        return {"square": torch.zeros_like(parameter)}
    return {
        "rows": torch.zeros_like(parameter[..., 0]),
        "columns": torch.zeros_like(parameter[..., 0, :]),
    }


def adafactor(parameter: Tensor, gradient: Tensor, state: State, step: assay.RuleStep) -> tuple[Tensor, State]:
    """Apply Adafactor (arXiv 1804.04235) as in transformers; with ``relative_step`` it has its own learning rate.

    Arguments: state=adafactor_state, relative_step=.
    """
    count = (step.number + 1).float()
    share = count**-0.8
    if step.options["relative_step"]:
        size = torch.clamp(1.0 / torch.sqrt(count), max=1e-2)
        size = size * torch.clamp(parameter.square().mean().sqrt(), min=1e-3)
    else:
        size = step.lr
    squares = gradient**2 + 1e-30
    if "square" in state:
        state = {"square": (1.0 - share) * state["square"] + share * squares}
        move = gradient / torch.sqrt(state["square"])
    else:
        rows = (1.0 - share) * state["rows"] + share * squares.mean(-1)
        columns = (1.0 - share) * state["columns"] + share * squares.mean(-2)
        state = {"rows": rows, "columns": columns}
        of_rows = torch.rsqrt(rows / rows.mean(-1, keepdim=True))
        move = gradient * of_rows.unsqueeze(-1) * torch.rsqrt(columns).unsqueeze(-2)
    move = move / torch.clamp(move.square().mean().sqrt(), min=1.0)
    return parameter - size * move, state


def lookahead(rule: Rule, k: int = 5, alpha: float = 0.5) -> Rule:
    """Return ``rule`` with Lookahead (arXiv 1907.08610). Its state also needs the entry "slow": lambda p: p."""

    def update(parameter: Tensor, gradient: Tensor, state: State, step: assay.RuleStep) -> tuple[Tensor, State]:
        own = {name: value for name, value in state.items() if name != "slow"}
        fast, after = rule(parameter, gradient, own, step)
        met = state["slow"] + alpha * (fast - state["slow"])
        is_time = (step.number + 1) % k == 0
        slow = torch.where(is_time, met, state["slow"])
        return torch.where(is_time, met, fast), {**after, "slow": slow}

    return update


def job() -> assay.JobSpec:
    """Return the job that ``assay job build`` builds."""
    digits = load_digits()
    order = np.random.default_rng(7).permutation(len(digits.target))
    x, y = digits.data[order].astype(np.float32) / 16, digits.target[order]
    model = nn.Sequential(
        nn.Linear(64, 128),
        nn.LayerNorm(128),
        nn.GELU(),
        nn.Linear(128, 64),
        nn.GELU(),
        nn.Linear(64, 10),
    )
    matrices = [p for p in model.parameters() if p.dim() == 2]
    others = [p for p in model.parameters() if p.dim() != 2]
    return assay.JobSpec(
        name="optimizers",
        model=model,
        loss=assay.cross_entropy(),
        metrics={"accuracy": assay.accuracy()},
        train={"x": x[:-360], "y": y[:-360]},
        holdout={"x": x[-360:], "y": y[-360:]},
        optimizer=[
            assay.update_rule(muon, matrices, lr=0.02, state={"momentum": 0.0}, beta=0.95, weight_decay=0.01),
            assay.update_rule(
                lamb,
                others,
                lr=0.003,
                state={"mean": 0.0, "square": 0.0},
                betas=(0.9, 0.999),
                eps=1e-6,
                weight_decay=0.01,
            ),
        ],
        steps=80,
        batch=64,
        seed=7,
    )
