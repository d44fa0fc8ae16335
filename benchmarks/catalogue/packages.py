"""Models and losses from common training packages, unchanged; ``make packages`` installs the packages."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from assay import JobSpec
from benchmarks.catalogue.rows import (
    CLASSES,
    PHOTOS,
    VECTORS,
    Batch,
    Loss,
    Make,
    OfModel,
    Row,
    classify,
    columns,
    job,
    package,
    words,
)
from pol.state.arrays import Array

NODES = 12
MAKE = "install it with `make packages`"


class WithLoss(nn.Module):
    """A module of a network and its loss; the loss may have its own weights."""

    def __init__(self, body: nn.Module, loss: nn.Module) -> None:
        super().__init__()
        self.body, self.loss = body, loss


def _of(
    name: str,
    make: Callable[[Any], nn.Module],
    data: Callable[[], dict[str, Array]] = PHOTOS,
    loss: Loss = classify,
    **options: Any,
) -> Make:
    """Return a function that makes a job whose model comes from the package ``name``."""

    def made() -> JobSpec:
        library = package(name, MAKE)
        return job(lambda: make(library), data, loss, **options)()

    return made


def _timm(name: str, **options: Any) -> Make:
    return _of("timm", lambda timm: timm.create_model(name, num_classes=CLASSES, **options), schedule=0.002)


def _masks() -> dict[str, Array]:
    x = np.random.default_rng(4).standard_normal((8, 3, 32, 32), np.float32)
    return {"x": x, "y": (x[:, :1] > 0).astype("f4")}


def _dice(model: nn.Module, batch: Batch) -> torch.Tensor:
    losses = package("segmentation_models_pytorch.losses", MAKE)
    found: torch.Tensor = losses.DiceLoss("binary")(model(batch["x"]), batch["y"])
    return found


def _itself(model: nn.Module, batch: Batch) -> torch.Tensor:
    found: torch.Tensor = model(batch["x"])
    return found


def _diffusion(library: Any) -> nn.Module:
    unet = library.Unet(dim=8, dim_mults=(1, 2), flash_attn=False)
    made: nn.Module = library.GaussianDiffusion(unet, image_size=16, timesteps=20)
    return made


def _language(library: Any) -> nn.Module:
    decoder = library.Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, rotary_pos_emb=True)
    network = library.TransformerWrapper(num_tokens=50, max_seq_len=12, attn_layers=decoder)
    made: nn.Module = library.AutoregressiveWrapper(network)
    return made


def _metric(name: str) -> Make:
    """Return a function that makes the job of a loss of pytorch-metric-learning with weights for each class."""

    def make(library: Any) -> nn.Module:
        return WithLoss(nn.Linear(16, 8), getattr(library, name)(CLASSES, 8))

    def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
        assert isinstance(model, WithLoss)
        found: torch.Tensor = model.loss(model.body(batch["x"]), batch["y"])
        return found

    return _of("pytorch_metric_learning.losses", make, VECTORS, loss)


def _pairs(make: Callable[[Any], nn.Module]) -> Make:
    """Return a function that makes the job of a pair loss of pytorch-metric-learning, on two noisy views per row."""

    def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
        assert isinstance(model, WithLoss)
        x = batch["x"].repeat(2, 1)
        labels = torch.arange(len(batch["x"])).repeat(2)
        found: torch.Tensor = model.loss(model.body(x + 0.1 * torch.randn_like(x)), labels)
        return found

    return _of(
        "pytorch_metric_learning.losses",
        lambda losses: WithLoss(nn.Linear(16, 8), make(losses)),
        VECTORS,
        loss,
    )


def _over_all(name: str, **options: Any) -> Make:
    """Return a function that makes the job of a pair loss: the mean over all pairs, even those of loss 0."""

    def make(losses: Any) -> nn.Module:
        mean = package("pytorch_metric_learning.reducers", MAKE).MeanReducer()
        loss: nn.Module = getattr(losses, name)(reducer=mean, **options)
        return loss

    return _pairs(make)


def _two_views(name: str, **options: Any) -> Make:
    """Return a function that makes the job of a loss of lightly, which compares two noisy views of each row."""

    def make(library: Any) -> nn.Module:
        return WithLoss(nn.Linear(16, 8), getattr(library, name)(**options))

    def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
        assert isinstance(model, WithLoss)
        one, other = (batch["x"] + 0.1 * torch.randn_like(batch["x"]) for _ in range(2))
        found: torch.Tensor = model.loss(model.body(one), model.body(other))
        return found

    return _of("lightly.loss", make, VECTORS, loss)


def _edges() -> torch.Tensor:
    return torch.tensor(np.random.default_rng(0).integers(0, NODES, (2, 40)))


class OnGraph(nn.Module):
    """A network of two layers of torch_geometric on a fixed graph."""

    def __init__(self, layer: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.first, self.second = layer(6, 8), layer(8, CLASSES)
        self.edges = _edges()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.relu(self.first(x, self.edges))
        found: torch.Tensor = self.second(hidden, self.edges)
        return found


def _graph() -> dict[str, Array]:
    random = np.random.default_rng(4)
    x = random.standard_normal((1, NODES, 6), np.float32)
    return {"x": x, "y": random.integers(0, CLASSES, (1, NODES))}


def _nodes(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(model(batch["x"][0]), batch["y"][0])


def _geometric(name: str, **options: Any) -> Make:
    def make(library: Any) -> nn.Module:
        kind = getattr(library, name)
        return OnGraph(lambda before, after: kind(before, after, **options))

    return _of("torch_geometric.nn", make, _graph, _nodes, batch=1, epochs=None)


def _lightning() -> JobSpec:
    library = package("lightning", MAKE)

    class Module(library.LightningModule):  # type: ignore[misc,name-defined]
        """A module as in Lightning's tutorial: hyper-parameters, logging, an optimizer with a schedule."""

        def __init__(self, width: int = 16) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.net = nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, CLASSES))

        def forward(self, x: torch.Tensor) -> Any:
            return self.net(x)

        def training_step(self, batch: Batch, number: int) -> torch.Tensor:
            del number
            loss = F.cross_entropy(self(batch["x"]), batch["y"])
            self.log("loss", loss)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), 0.01)

    return job(
        Module,
        VECTORS,
        lambda model, batch: model.training_step(batch, 0),  # type: ignore[operator]
        optimizer=OfModel(lambda model: model.configure_optimizers()),  # type: ignore[operator]
        schedule=None,
    )()


def _keras(make: Callable[[Any], nn.Module], data: Callable[[], dict[str, Array]]) -> Make:
    def made() -> JobSpec:
        # Keras reads this variable when it is imported.
        os.environ["KERAS_BACKEND"] = "torch"
        library = package("keras", MAKE)
        return job(lambda: make(library), data)()

    return made


def _pictures_last() -> dict[str, Array]:
    return columns(np.random.default_rng(4).standard_normal((16, 8, 8, 3), np.float32))


PACKAGES: tuple[Row, ...] = (
    (
        "timm ViT",
        _timm("vit_tiny_patch16_224", img_size=32, patch_size=8, embed_dim=48, depth=2, num_heads=3),
    ),
    ("timm ConvNeXt", _timm("convnext_atto", depths=(1, 1, 1, 1), dims=(8, 16, 24, 32))),
    (
        "timm MLP-Mixer",
        _of(
            "timm",
            lambda timm: timm.models.MlpMixer(CLASSES, img_size=32, patch_size=8, num_blocks=2, embed_dim=32),
        ),
    ),
    ("timm ResNet-10-T", _timm("resnet10t")),
    (
        "vit-pytorch ViT",
        _of(
            "vit_pytorch",
            lambda v: v.ViT(
                image_size=32,
                patch_size=8,
                num_classes=CLASSES,
                dim=32,
                depth=2,
                heads=4,
                mlp_dim=64,
                dropout=0.1,
                emb_dropout=0.1,
            ),
        ),
    ),
    (
        "vit-pytorch SimpleViT",
        _of(
            "vit_pytorch",
            lambda v: v.SimpleViT(
                image_size=32,
                patch_size=8,
                num_classes=CLASSES,
                dim=32,
                depth=2,
                heads=4,
                mlp_dim=64,
            ),
        ),
    ),
    ("x-transformers, autoregressive", _of("x_transformers", _language, words, _itself)),
    (
        "denoising-diffusion-pytorch",
        _of(
            "denoising_diffusion_pytorch",
            _diffusion,
            lambda: {"x": np.random.default_rng(4).random((8, 3, 16, 16), np.float32)},
            _itself,
        ),
    ),
    (
        "segmentation-models-pytorch U-Net, Dice",
        _of(
            "segmentation_models_pytorch",
            lambda s: s.Unet("resnet18", encoder_weights=None, encoder_depth=3, decoder_channels=(16, 8, 8)),
            _masks,
            _dice,
        ),
    ),
    (
        "segmentation-models-pytorch LinkNet, Dice",
        _of(
            "segmentation_models_pytorch",
            lambda s: s.Linknet("resnet18", encoder_weights=None, encoder_depth=3),
            _masks,
            _dice,
        ),
    ),
    ("pytorch-metric-learning NormalizedSoftmaxLoss", _metric("NormalizedSoftmaxLoss")),
    ("pytorch-metric-learning SoftTripleLoss", _metric("SoftTripleLoss")),
    ("pytorch-metric-learning ArcFaceLoss", _metric("ArcFaceLoss")),
    ("pytorch-metric-learning CosFaceLoss", _metric("CosFaceLoss")),
    ("pytorch-metric-learning NTXentLoss, two views", _pairs(lambda losses: losses.NTXentLoss())),
    (
        "pytorch-metric-learning MultiSimilarityLoss, two views",
        _pairs(lambda losses: losses.MultiSimilarityLoss()),
    ),
    (
        "pytorch-metric-learning TripletMarginLoss, two views",
        _over_all("TripletMarginLoss", margin=1),
    ),
    ("pytorch-metric-learning ContrastiveLoss, two views", _over_all("ContrastiveLoss")),
    ("pytorch-metric-learning SupConLoss, two views", _over_all("SupConLoss")),
    ("lightly NTXentLoss", _two_views("NTXentLoss")),
    ("lightly BarlowTwinsLoss", _two_views("BarlowTwinsLoss")),
    ("lightly VICRegLoss", _two_views("VICRegLoss")),
    ("torch_geometric GCNConv", _geometric("GCNConv")),
    ("torch_geometric GATConv", _geometric("GATConv", heads=2, concat=False)),
    ("torch_geometric SAGEConv", _geometric("SAGEConv")),
    ("torch_geometric GraphConv", _geometric("GraphConv")),
    ("Lightning: training_step, configure_optimizers", _lightning),
    (
        "Keras: Dense",
        _keras(
            lambda k: k.Sequential(
                [
                    k.layers.Input((16,)),
                    k.layers.Dense(16, activation="relu"),
                    k.layers.Dense(CLASSES),
                ]
            ),
            VECTORS,
        ),
    ),
    (
        "Keras: Conv2D, pooling",
        _keras(
            lambda k: k.Sequential(
                [
                    k.layers.Input((8, 8, 3)),
                    k.layers.Conv2D(8, 3, activation="relu"),
                    k.layers.MaxPooling2D(),
                    k.layers.Flatten(),
                    k.layers.Dense(CLASSES),
                ]
            ),
            _pictures_last,
        ),
    ),
)
