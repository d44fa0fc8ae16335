"""Patterns from public training loops, as issues and forum threads show them, each rewritten in a few lines."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from assay import JobSpec
from benchmarks.catalogue.rows import (
    CLASSES,
    IMAGES,
    SEQUENCES,
    VECTORS,
    Batch,
    Does,
    Loss,
    Make,
    OfModel,
    Row,
    job,
    words,
)
from pol.state.arrays import Array


def _scores() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, CLASSES))


def _embedding() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 8))


def _losses(loss: Loss, model: Callable[[], nn.Module] = _embedding, **options: Any) -> Make:
    return job(model, VECTORS, loss, **options)


# --- heads and losses ----------------------------------------------------------------------------


class ArcHead(nn.Module):
    """A head with scores from the cosines between rows and class weights, with a margin at the true class.

    The forward pass normalizes the weights.
    """

    def __init__(self, reduce: bool) -> None:
        super().__init__()
        self.weight, self._reduce = nn.Parameter(torch.randn(CLASSES, 16)), reduce

    def forward(self, x: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        self.weight.data = F.normalize(self.weight.data)
        cosine = F.linear(F.normalize(x), self.weight)
        with torch.no_grad():
            angle = torch.acos(cosine.clamp(-0.999, 0.999))
            if self._reduce:
                angle.scatter_(1, classes[:, None], 0.3, reduce="add")
            else:
                angle = angle + 0.3 * F.one_hot(classes, CLASSES)
            shift = angle.clamp(max=3.14).cos() - cosine
        return 16 * (cosine + shift)


def _arc(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(model(batch["x"], batch["y"]), batch["y"])


_ALPHA = torch.tensor([0.1, 0.3, 0.2, 0.25, 0.15])


def _focal(model: nn.Module, batch: Batch) -> torch.Tensor:
    logs = F.log_softmax(model(batch["x"]), 1).gather(1, batch["y"][:, None])[:, 0]
    alpha = _ALPHA.type_as(logs).gather(0, batch["y"])
    return -(alpha * (1 - logs.exp()) ** 2 * logs).mean()


def _supervised_contrast(model: nn.Module, batch: Batch) -> torch.Tensor:
    views = [batch["x"] + 0.1 * torch.randn_like(batch["x"]) for _ in range(2)]
    z = F.normalize(model(torch.cat(views)), dim=1)
    labels = batch["y"].repeat(2)
    others = ~torch.eye(len(z), dtype=torch.bool)
    same = (labels[:, None] == labels) & others
    logits = z @ z.T / 0.1
    logits = logits - logits.max(1, keepdim=True).values.detach()
    logs = logits - torch.log((logits.exp() * others).sum(1, keepdim=True))
    return -((same * logs).sum(1) / same.sum(1).clamp(min=1)).mean()


def _triplets(model: nn.Module, batch: Batch) -> torch.Tensor:
    z, y = F.normalize(model(batch["x"])), batch["y"]
    far = torch.cdist(z, z)
    is_same = y[:, None] == y
    is_pair = is_same & ~torch.eye(len(z), dtype=torch.bool)
    is_triplet = is_pair[:, :, None] & ~is_same[:, None, :]
    loss = F.relu(far[:, :, None] - far[:, None, :] + 0.2) * is_triplet
    return loss.sum() / (loss > 0).sum().clamp(min=1)


def _margin_of_true(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return a loss with a margin at the true class, selected by a mask, as in many heads for face recognition."""
    scores = model(batch["x"]).tanh().clone()
    is_true = torch.zeros_like(scores).scatter_(1, batch["y"].view(-1, 1).long(), 1.0) == 1
    scores[is_true] = (torch.acos(scores[is_true].clamp(-0.99, 0.99)) + 0.2).cos()
    return F.cross_entropy(8 * scores, batch["y"])


def _others_of_each(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Return a loss that selects the scores of all classes but the true one, as in distillation and hard negatives."""
    scores: torch.Tensor = model(batch["x"])
    is_true = F.one_hot(batch["y"], CLASSES).bool()
    others = scores[~is_true].view(len(scores), -1)
    return (others.logsumexp(1) - scores[is_true]).mean()


def _all_but_self(model: nn.Module, batch: Batch) -> torch.Tensor:
    z: torch.Tensor = F.normalize(model(batch["x"]), dim=1)
    other = ~torch.eye(len(z), dtype=torch.bool)
    return (z @ z.T)[other].view(len(z), -1).logsumexp(1).mean()


def _selected_pairs(model: nn.Module, batch: Batch) -> torch.Tensor:
    z: torch.Tensor = F.normalize(model(batch["x"]), dim=1)
    mask = torch.eye(len(z)).bool()
    apart = (z @ z.T).masked_select(~mask)
    together = (z @ z.T).masked_select(mask)
    return apart.exp().mean() - together.mean()


def _upper_pairs(model: nn.Module, batch: Batch) -> torch.Tensor:
    z: torch.Tensor = model(batch["x"])
    one, other = torch.triu_indices(len(z), len(z), 1)
    return (z[one] - z[other]).square().mean()


def _nonzero_pairs(model: nn.Module, batch: Batch) -> torch.Tensor:
    z: torch.Tensor = model(batch["x"])
    pairs = torch.ones(len(z), len(z)).triu(1).nonzero()
    return (z[pairs[:, 0]] - z[pairs[:, 1]]).square().mean()


_EDGES = torch.tensor(np.random.default_rng(0).integers(0, 4, (2, 20)))


def _edges_without_loops(model: nn.Module, batch: Batch) -> torch.Tensor:
    z: torch.Tensor = model(batch["x"])
    source, target = _EDGES[:, _EDGES[0] != _EDGES[1]]
    return (z[source] - z[target]).square().mean()


def _dice(model: nn.Module, batch: Batch) -> torch.Tensor:
    p: torch.Tensor = model(batch["x"]).softmax(1)
    target = F.one_hot(batch["y"], CLASSES)
    return 1 - (2 * (p * target).sum(0) / (p + target).sum(0).clamp(min=1e-6)).mean()


def _class_weights(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(model(batch["x"]), batch["y"], weight=_ALPHA, label_smoothing=0.1)


def _row_weights(model: nn.Module, batch: Batch) -> torch.Tensor:
    each = F.cross_entropy(model(batch["x"]), batch["y"], reduction="none")
    return (each * batch["w"]).sum() / batch["w"].sum()


def _weighted() -> dict[str, Array]:
    columns = VECTORS()
    return {**columns, "w": np.random.default_rng(6).random(len(columns["y"]), np.float32)}


# --- forward passes that change state ------------------------------------------------------------


class Follows(nn.Module):
    """A query network, and a key network whose weights move towards those of the query network in each forward pass."""

    def __init__(self, move: Callable[[torch.Tensor, torch.Tensor], None]) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(16, 8), nn.Linear(16, 8)
        self.key.load_state_dict(self.query.state_dict())
        self.key.requires_grad_(False)
        self._move = move

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            for followed, follows in zip(self.query.parameters(), self.key.parameters(), strict=True):
                self._move(followed, follows)
        return F.mse_loss(self.query(x), self.key(x + 0.5) + 1)


def _by_data(followed: torch.Tensor, follows: torch.Tensor) -> None:
    follows.data = 0.5 * follows.data + 0.5 * followed.data


def _in_data(followed: torch.Tensor, follows: torch.Tensor) -> None:
    follows.data.mul_(0.5).add_(followed.data, alpha=0.5)


def _in_place(followed: torch.Tensor, follows: torch.Tensor) -> None:
    follows.mul_(0.5).add_(followed, alpha=0.5)


def _by_copy(followed: torch.Tensor, follows: torch.Tensor) -> None:
    follows.copy_(torch.lerp(follows, followed, 0.5))


def _follow(move: Callable[[torch.Tensor, torch.Tensor], None]) -> Make:
    return job(
        lambda: Follows(move),
        VECTORS,
        lambda model, batch: model(batch["x"]),
        optimizer=OfModel(lambda model: torch.optim.SGD(model.query.parameters(), 0.3)),  # type: ignore[union-attr]
        schedule=None,
    )


class Queue(nn.Module):
    """A network with a queue of keys of earlier batches, in which new keys replace the oldest ones."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(16, 8)
        self.queue: torch.Tensor
        self.register_buffer("queue", F.normalize(torch.randn(12, 8)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = F.normalize(self.body(x))
        logits = torch.cat([(z * z.detach()).sum(1, keepdim=True), z @ self.queue.T], 1)
        self.queue = torch.cat([self.queue[len(x) :], z.detach()])
        return F.cross_entropy(logits / 0.2, torch.zeros(len(x), dtype=torch.long))


class Clamped(nn.Module):
    """A layer whose forward pass clamps its weights and shrinks a scale that is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, CLASSES)
        self.scale = nn.Parameter(torch.full((1,), 4.0), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.layer.weight.clamp_(-0.1, 0.1)
            self.scale.mul_(0.9)
        scores: torch.Tensor = self.layer(x)
        return self.scale * scores


def _frozen_norm() -> nn.Module:
    norm = nn.BatchNorm1d(16)
    norm.running_mean = torch.randn(16)
    norm.running_var = 0.5 + torch.rand(16)
    norm.eval()
    return nn.Sequential(nn.Linear(16, 16), norm, nn.ReLU(), nn.Linear(16, CLASSES))


class StaysFrozen(nn.Sequential):
    """A network whose ``train`` keeps batch norm in evaluation mode."""

    def train(self, mode: bool = True) -> "StaysFrozen":
        super().train(mode)
        for part in self.modules():
            if isinstance(part, nn.BatchNorm1d):
                part.eval()
        return self


# --- custom gradients ----------------------------------------------------------------------------


class Reverse(torch.autograd.Function):
    """The identity with a negated gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        del ctx
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, slope: torch.Tensor) -> Any:
        del ctx
        return -0.5 * slope


def _adversary(model: Any, x: torch.Tensor) -> torch.Tensor:
    hidden = model.body(x).relu()
    reversed_: torch.Tensor = Reverse.apply(hidden)  # type: ignore[no-untyped-call]
    found: torch.Tensor = model.score(hidden) + model.domain(reversed_)
    return found


class Codebook(nn.Module):
    """A vector quantizer: the nearest code, with a straight-through gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(16, 4), nn.Linear(4, 16)
        self.codes = nn.Embedding(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        z = self.encode(x)
        nearest = self.codes(torch.cdist(z, self.codes.weight).argmin(1))
        straight = z + (nearest - z).detach()
        commitment = F.mse_loss(nearest, z.detach()) + 0.25 * F.mse_loss(z, nearest.detach())
        return F.mse_loss(self.decode(straight), x) + commitment


def _penalty(model: nn.Module, batch: Batch) -> torch.Tensor:
    x = batch["x"].clone().requires_grad_()
    scores: torch.Tensor = model(x)
    (slope,) = torch.autograd.grad(scores.sum(), x, create_graph=True)
    lengths: torch.Tensor = torch.linalg.vector_norm(slope, dim=1)
    return F.cross_entropy(scores, batch["y"]) + 0.1 * (lengths - 1).square().mean()


# --- networks by hand ----------------------------------------------------------------------------


def _own_init() -> nn.Module:
    """Return a language model with tied weights and custom initial weights, as in nanoGPT."""

    class Tied(nn.Module):
        """A model whose embedding and output layer share their weights."""

        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.body = nn.Embedding(50, 16), nn.Linear(16, 16)
            self.score = nn.Linear(16, 50, bias=False)
            self.tokens.weight = self.score.weight
            self.apply(self._begin)

        @staticmethod
        def _begin(part: nn.Module) -> None:
            if isinstance(part, nn.Linear | nn.Embedding):
                nn.init.normal_(part.weight, 0.0, 0.02)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.tokens(x)
            found: torch.Tensor = self.score(F.layer_norm(h + self.body(h), (16,)))
            return found

    return Tied()


def _next(model: nn.Module, batch: Batch) -> torch.Tensor:
    x = batch["x"]
    return F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())


def _default_weights() -> JobSpec:
    return replace(job(_own_init, words, _next)(), weights=None)


def _last_state(model: Any, x: torch.Tensor) -> torch.Tensor:
    out, _ = model.cell(x)
    lengths = (x[:, 0, 0] > 0).long() * 2 + 3
    found: torch.Tensor = model.score(out[torch.arange(len(x)), lengths - 1])
    return found


def _temporal(model: Any, x: torch.Tensor) -> torch.Tensor:
    h = F.pad(x.transpose(1, 2), (4, 0))
    found: torch.Tensor = model.score(model.conv(h).relu().mean(2))
    return found


def _dilated() -> nn.Module:
    conv = nn.utils.weight_norm(nn.Conv1d(16, 8, 3, dilation=2))
    return Does(_temporal, conv=conv, score=nn.Linear(8, CLASSES))


def _squeeze(model: Any, x: torch.Tensor) -> torch.Tensor:
    h = model.conv(x).relu()
    h = h * model.gate(h.mean((2, 3))).sigmoid()[:, :, None, None]
    found: torch.Tensor = model.score(h.mean((2, 3)))
    return found


def _bags(model: Any, x: torch.Tensor, dense: torch.Tensor) -> torch.Tensor:
    offsets = torch.arange(0, x.numel(), x.shape[1])
    weights = torch.linspace(0.5, 1.5, x.numel())
    bag = model.bag(x.flatten(), offsets, per_sample_weights=weights)
    parts = torch.stack([bag, model.dense(dense), bag * 0.5], 1)
    products = torch.bmm(parts, parts.transpose(1, 2))
    one, other = torch.tril_indices(3, 3, -1)
    found: torch.Tensor = model.score(torch.cat([products[:, one, other], bag], 1))
    return found


def _click(model: nn.Module, batch: Batch) -> torch.Tensor:
    chance = model(batch["x"], batch["d"]).sigmoid()[:, 0]
    return F.binary_cross_entropy(chance, (batch["y"] > 2).float())


def _clicks() -> dict[str, Array]:
    dense = np.random.default_rng(6).standard_normal((16, 6), np.float32)
    return {**words(6), "d": dense}


def _recommender(sparse: bool) -> nn.Module:
    bag = nn.EmbeddingBag(50, 8, mode="sum", sparse=sparse)
    return Does(_bags, bag=bag, dense=nn.Linear(6, 8), score=nn.Linear(11, 1))


_LINKS = (torch.rand(8, 8, generator=torch.Generator().manual_seed(0)) < 0.3).float().to_sparse()


def _sparse_graph(model: Any, x: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = torch.spmm(_LINKS, model.layer(x))
    return found


def _of_nodes(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(model(batch["x"][0]), batch["y"][0])


def _nodes() -> dict[str, Array]:
    random = np.random.default_rng(4)
    x = random.standard_normal((1, 8, 6), np.float32)
    return {"x": x, "y": random.integers(0, CLASSES, (1, 8))}


def _gaps(model: Any, x: torch.Tensor) -> torch.Tensor:
    gone = x.abs() < 0.3
    filled = torch.where(gone, model.fill.weight[0], x)
    found: torch.Tensor = model.score(torch.cat([filled, gone.float()], 1))
    return found


def _dashed() -> nn.Module:
    return nn.Sequential(
        OrderedDict(
            [
                ("block1-0", nn.Linear(16, 16)),
                ("act", nn.ReLU()),
                ("head (2)", nn.Linear(16, CLASSES)),
            ]
        )
    )


# --- optimizers and schedules --------------------------------------------------------------------


class Growing(torch.optim.lr_scheduler.LRScheduler):
    """A schedule with restarts at growing intervals."""

    def get_lr(self) -> list[float | torch.Tensor]:
        part = (self.last_epoch % 3) / 3
        return [base * (1 - part) for base in self.base_lrs]


def _own_schedule() -> JobSpec:
    torch.manual_seed(7)
    model = _scores()
    first, *rest = model.children()
    later = [parameter for part in rest for parameter in part.parameters()]
    groups: list[dict[str, Any]] = [
        {"params": list(first.parameters())},
        {"params": later, "lr": 0.02},
    ]
    optimizer = torch.optim.SGD(groups, 0.1)
    return job(lambda: model, VECTORS, optimizer=optimizer, schedule=Growing(optimizer))()


def _warmed() -> JobSpec:
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, CLASSES))
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, 0.01)
    warmed = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 5))
    return job(lambda: model, VECTORS, optimizer=optimizer, schedule=warmed, clip_norm=1.0)()


def _went_on() -> JobSpec:
    """Return a job whose optimizer has already taken steps, as after loading a checkpoint."""
    torch.manual_seed(7)
    model, data = _scores(), VECTORS()
    adam = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(5):
        adam.zero_grad()
        loss = F.cross_entropy(model(torch.tensor(data["x"])), torch.tensor(data["y"]))
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
    return job(lambda: model, VECTORS, optimizer=adam, schedule=None)()


PEOPLE: tuple[Row, ...] = (
    ("ArcFace, weights brought to length 1", job(lambda: ArcHead(False), VECTORS, _arc)),
    ("ArcFace, scatter_ with reduce", job(lambda: ArcHead(True), VECTORS, _arc)),
    ("focal loss, alpha of a class", _losses(_focal, _scores)),
    ("supervised contrastive loss, two views", _losses(_supervised_contrast)),
    ("triplets of the labels of a batch", _losses(_triplets, batch=8)),
    ("a margin at the true class by a mask", _losses(_margin_of_true, _scores)),
    ("all classes but the true one by a mask", _losses(_others_of_each, _scores)),
    ("SimCLR: all but oneself by a mask", _losses(_all_but_self)),
    ("masked_select by a fixed mask", _losses(_selected_pairs)),
    ("pairs by triu_indices", _losses(_upper_pairs)),
    ("pairs by nonzero of a fixed mask", _losses(_nonzero_pairs)),
    ("edges of a fixed graph without loops", _losses(_edges_without_loops)),
    ("Dice loss of classes", _losses(_dice, _scores)),
    ("class weights, label smoothing", _losses(_class_weights, _scores)),
    ("weights of rows", job(_scores, _weighted, _row_weights)),
    ("momentum network, .data =", _follow(_by_data)),
    ("momentum network, .data.mul_", _follow(_in_data)),
    ("momentum network, mul_ under no_grad", _follow(_in_place)),
    ("momentum network, copy_", _follow(_by_copy)),
    ("queue of keys by cat", job(Queue, VECTORS, lambda model, batch: model(batch["x"]))),
    ("weights clamped in forward, a fixed scale", job(Clamped, VECTORS)),
    ("batch norm put in eval by the job", job(_frozen_norm, VECTORS)),
    (
        "batch norm kept in eval by train()",
        job(lambda: StaysFrozen(*_frozen_norm().children()), VECTORS),
    ),
    (
        "gradient reversal",
        job(
            lambda: Does(
                _adversary,
                body=nn.Linear(16, 16),
                score=nn.Linear(16, CLASSES),
                domain=nn.Linear(16, CLASSES),
            ),
            VECTORS,
        ),
    ),
    ("codebook, straight through", job(Codebook, VECTORS, lambda model, batch: model(batch["x"]))),
    (
        "gradient penalty",
        _losses(_penalty, lambda: nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, CLASSES))),
    ),
    ("tied weights, initial ones of its own", _default_weights),
    (
        "LSTM, the state at each row's length",
        job(
            lambda: Does(_last_state, cell=nn.LSTM(16, 8, batch_first=True), score=nn.Linear(8, CLASSES)),
            SEQUENCES,
        ),
    ),
    ("temporal convolution, old weight_norm", job(_dilated, SEQUENCES)),
    (
        "squeeze and excitation",
        job(
            lambda: Does(
                _squeeze,
                conv=nn.Conv2d(3, 8, 3),
                gate=nn.Linear(8, 8),
                score=nn.Linear(8, CLASSES),
            ),
            IMAGES,
        ),
    ),
    (
        "recommender: bags, pairs, Adagrad",
        job(
            lambda: _recommender(False),
            _clicks,
            _click,
            optimizer=OfModel(lambda model: torch.optim.Adagrad(model.parameters(), 0.05)),
            schedule=None,
        ),
    ),
    ("recommender: sparse gradients", job(lambda: _recommender(True), _clicks, _click)),
    (
        "graph by a fixed sparse matrix",
        job(lambda: Does(_sparse_graph, layer=nn.Linear(6, CLASSES)), _nodes, _of_nodes, batch=1),
    ),
    (
        "gaps filled by a weight",
        job(lambda: Does(_gaps, fill=nn.Embedding(1, 16), score=nn.Linear(32, CLASSES)), VECTORS),
    ),
    ("names with dashes, spaces and brackets", job(_dashed, VECTORS)),
    ("scheduler of one's own, two groups", _own_schedule),
    ("no decay on biases, warm-up, clipping", _warmed),
    ("optimizer that has trained before", _went_on),
)
