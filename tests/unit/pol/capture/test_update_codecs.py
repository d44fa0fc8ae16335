"""Each codec, captured and run as a part of a job, agrees with a prototype in FP64 over several rounds."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pol.capture.author.codecs import DGC, Dense, Quantised, Sparse, Update
from pol.capture.author.measures import cross_entropy
from pol.capture.author.spec import Average, JobSpec, Nesterov
from pol.capture.build import build
from pol.capture.codecs.codec import MOMENTUM, RESIDUE, ROUND, Codec, group_size, largest
from pol.capture.codecs.table import codec_of
from pol.capture.graph.capture import capture_program
from pol.capture.optim.optimizers import outer_initial, outer_update
from pol.errors import JobError, NotFinite
from pol.executor.backend import backend
from pol.executor.interface import run
from pol.executor.names import Engine
from pol.job.load import load_job
from pol.job.program import Program
from pol.job.updates import CODED
from tests.unit.pol.capture.update_prototypes import MomentumPrototype, QuantisedPrototype, SparsePrototype

Array = NDArray[Any]
Arrays = Mapping[str, Array]
SLOTS, SHAPE = 3, (5, 83)
"""Slots; the shape of the coded tensor, whose last chunk is not full."""
PROTOTYPES: dict[type, Callable[..., Any]] = {
    Sparse: SparsePrototype,
    Quantised: QuantisedPrototype,
    DGC: MomentumPrototype,
}
SETTINGS: list[Any] = [
    Sparse(keep=8, chunk=128),
    Sparse(keep=8, chunk=128, bits=1, decay=1.0),
    Sparse(keep=128, chunk=128),
    Quantised(bits=8, block=64),
    Quantised(bits=4, block=64),
    DGC(keep=4, chunk=128, decay=1.0, warmup=(16, 8)),
    DGC(keep=4, chunk=128, decay=1.0),
    DGC(keep=4, chunk=128),
    DGC(keep=8, chunk=128, warmup=(16,)),
]
MOMENTA: dict[Any, float] = {SETTINGS[5]: 0.5, SETTINGS[7]: 0.9}
"""Outer momenta that slots apply to their own changes; the others are 0."""


def _codec(settings: Update, slots: int = SLOTS) -> tuple[Codec, Program, Program]:
    """Return a codec for a coded weight, a small one and a buffer, with its two programs."""
    trained = {"w": torch.zeros(SHAPE), "bias": torch.zeros(3)}
    state = {**trained, "seen": torch.zeros(())}
    codec = codec_of(settings, trained, state, state, MOMENTA.get(settings, 0.0))
    assert codec is not None
    local = codec.initial()

    def encode(given: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        moved = {name: given[f"moved.{name}"] for name in state}
        update, after = codec.encode(moved, {name: given[f"local.{name}"] for name in local})
        named = {**{f"update.{name}": value for name, value in update.items()}}
        return {**named, **{f"local.{name}": value for name, value in after.items()}}

    moved = {f"moved.{name}": value for name, value in state.items()}
    close = capture_program(encode, {**moved, **{f"local.{name}": value for name, value in local.items()}})
    dtypes = {"f32": torch.float32, "i64": torch.int64}
    updates = {
        name.removeprefix("update."): torch.zeros((slots, *value.shape), dtype=dtypes[value.dtype])
        for name, value in close.output_types().items()
        if name.startswith("update.")
    }
    return codec, close, capture_program(codec.decode, updates)


class Slot:
    """A slot's side of a codec: its local state, and the prototype beside it."""

    def __init__(self, codec: Codec, close: Program, settings: Update) -> None:
        self._close = close
        self._local = {name: value.numpy() for name, value in codec.initial().items()}
        of_settings = (MOMENTA[settings],) if settings in MOMENTA else ()
        self._prototype = PROTOTYPES[type(settings)](settings, np.zeros(SHAPE[0] * SHAPE[1]), *of_settings)

    def send(self, moved: Arrays) -> tuple[Arrays, NDArray[np.float64]]:
        """Return the update of a round, and what the prototype sends of the coded tensor."""
        inputs = {f"moved.{name}": value for name, value in moved.items()}
        inputs.update({f"local.{name}": value for name, value in self._local.items()})
        outputs = run(self._close, inputs, 0, backend(Engine("numpy")))
        self._local = {n.removeprefix("local."): v for n, v in outputs.items() if n.startswith("local.")}
        sent = self._prototype.send(moved["w"].astype(np.float64).reshape(-1)).reshape(SHAPE)
        update = {n.removeprefix("update."): v for n, v in outputs.items() if n.startswith("update.")}
        return update, sent

    def check(self, scale: float = 1.0) -> None:
        """Compare what stays in the slot with the prototype."""
        kept = {RESIDUE: self._prototype.residue, MOMENTUM: getattr(self._prototype, "velocity", None)}
        for prefix, wanted in kept.items():
            if f"{prefix}w" in self._local:
                np.testing.assert_allclose(self._local[f"{prefix}w"], wanted.reshape(SHAPE), atol=3e-6 * scale)


def _decoded(outer: Program, updates: list[Arrays]) -> dict[str, Array]:
    stacked = {name: np.stack([update[name] for update in updates]) for name in updates[0]}
    return run(outer, stacked, 0, backend(Engine("numpy")))


def _moved(generator: np.random.Generator, scale: float = 1.0) -> dict[str, Array]:
    # heavy tails, as changes of weights have
    return {
        "w": (generator.standard_t(3, SHAPE) * scale).astype(np.float32),
        "bias": generator.standard_normal(3).astype(np.float32),
        "seen": np.array(generator.standard_normal(), np.float32),
    }


@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30], ids=["ordinary", "small", "large"])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_codec_agrees_with_its_prototype(settings: Update, scale: float) -> None:
    codec, close, outer = _codec(settings)
    slots = [Slot(codec, close, settings) for _ in range(SLOTS)]
    generator = np.random.default_rng(7)
    for _ in range(4):
        moved = [_moved(generator, scale) for _ in slots]
        sent = [slot.send(change) for slot, change in zip(slots, moved, strict=True)]
        found = _decoded(outer, [update for update, _ in sent])
        np.testing.assert_allclose(found["w"], np.mean([each for _, each in sent], 0), atol=3e-6 * scale)
        for name in ("bias", "seen"):
            np.testing.assert_allclose(
                found[name], np.mean([change[name] for change in moved], 0), rtol=1e-5, atol=1e-7
            )
        for slot in slots:
            slot.check(scale)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_what_was_not_sent_is_sent_later(settings: Update) -> None:
    """A change that happens once arrives whole in the end, or in the share that decay leaves of it."""
    codec, close, outer = _codec(settings, slots=1)
    slot, generator = Slot(codec, close, settings), np.random.default_rng(1)
    change = _moved(generator)
    total = np.zeros(SHAPE)
    for number in range(60):
        moved = change if not number else {name: np.zeros_like(value) for name, value in change.items()}
        update, _ = slot.send(moved)
        total += _decoded(outer, [update])["w"]
    if getattr(settings, "decay", 1.0) == 1.0 and settings not in MOMENTA:
        assert np.abs(total - change["w"]).max() < 0.3 * np.abs(change["w"]).max()
    # the signs of the largest changes are right in any case
    largest = np.abs(change["w"]) > np.quantile(np.abs(change["w"]), 0.97)
    assert (np.sign(total) == np.sign(change["w"]))[largest].all()


@pytest.mark.parametrize("settings", [SETTINGS[0], SETTINGS[3], SETTINGS[5]], ids=str)
def test_small_tensors_are_coded_together(settings: Any) -> None:
    trained = {"w": torch.zeros(SHAPE), "small": torch.zeros(2, 70), "bias": torch.zeros(3)}
    trained |= {f"norm{number}": torch.zeros(30) for number in range(6)}
    least = settings.block if isinstance(settings, Quantised) else settings.chunk
    small = [name for name, tensor in trained.items() if tensor.numel() < least]
    codec = codec_of(settings, trained, trained, trained)
    assert codec is not None
    pools = [name for name in codec.initial() if name.startswith(f"{RESIDUE}small_")]
    assert pools == [f"{RESIDUE}small_"]
    generator = torch.Generator().manual_seed(5)
    moved = {name: torch.randn(tensor.shape, generator=generator) for name, tensor in trained.items()}
    update, after = codec.encode(moved, codec.initial())
    assert "plain" not in update
    means = codec.decode({name: value.unsqueeze(0) for name, value in update.items()})
    assert {name: mean.shape for name, mean in means.items()} == {name: t.shape for name, t in trained.items()}
    sent = torch.cat([means[name].reshape(-1) for name in small])
    whole = torch.cat([moved[name].reshape(-1) for name in small])
    torch.testing.assert_close(after[pools[0]], whole - sent)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_nothing_moved(settings: Update) -> None:
    codec, close, outer = _codec(settings)
    nothing = {"w": np.zeros(SHAPE, np.float32), "bias": np.zeros(3, np.float32), "seen": np.zeros((), np.float32)}
    slot = Slot(codec, close, settings)
    for _ in range(2):
        update, _ = slot.send(nothing)
        assert all(not value.any() for value in _decoded(outer, [update] * SLOTS).values())
        slot.check()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_equal_magnitudes_and_few_that_are_not_zero(settings: Update) -> None:
    """Of equal magnitudes the first are sent; zeros that are sent with a few large numbers stay zeros."""
    codec, close, outer = _codec(settings)
    equal = np.where(np.arange(SHAPE[0] * SHAPE[1]) % 3 == 0, -0.5, 0.5).astype(np.float32).reshape(SHAPE)
    few = np.zeros(SHAPE, np.float32)
    few[1, 5], few[4, 82] = 2.0, -3.0
    for tensor in (equal, few):
        slot = Slot(codec, close, settings)
        update, sent = slot.send({"w": tensor, "bias": np.ones(3, np.float32), "seen": np.ones((), np.float32)})
        np.testing.assert_allclose(_decoded(outer, [update] * SLOTS)["w"], sent, atol=1e-6)
        slot.check()


def test_a_slot_keeps_a_momentum_and_the_round_only_if_it_needs_them() -> None:
    trained = {"w": torch.zeros(SHAPE)}
    for settings, momentum, more in (
        (DGC(keep=4, chunk=128), 0.0, set()),
        (DGC(keep=4, chunk=128), 0.5, {f"{MOMENTUM}w"}),
        (DGC(keep=4, chunk=128, warmup=(8,)), 0.0, {ROUND}),
    ):
        codec = codec_of(settings, trained, trained, trained, momentum)
        assert codec is not None
        assert codec.initial().keys() == {f"{RESIDUE}w", *more}


def test_a_job_moves_the_outer_momentum_into_its_slots(tmp_path: Path) -> None:
    """The outer optimizer then applies its learning rate only, and the global state has no velocity."""
    outer = Nesterov(lr=0.7, momentum=0.5)
    data = {"x": np.zeros((8, 16), np.float32), "y": np.zeros(8, np.int64)}
    spec = JobSpec(
        name="corrected",
        model=torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.Linear(8, 2)),
        loss=cross_entropy(),
        train=data,
        holdout=data,
        batch=4,
        steps=4,
        outer=outer,
        update=DGC(keep=4, chunk=64),
    )
    assert (spec.momentum_of_slots, spec.outer_of_mean) == (0.5, Nesterov(lr=0.7, momentum=0.0))
    for kept in (replace(spec, update=Sparse(keep=4, chunk=64)), replace(spec, update=Dense())):
        assert (kept.momentum_of_slots, kept.outer_of_mean) == (0.0, outer)
    average = replace(spec, outer=Average())
    assert (average.momentum_of_slots, average.outer_of_mean) == (0.0, Average())
    start, change = {"w": torch.tensor([2.0])}, {"w": torch.tensor([0.5])}
    assert outer_initial(spec.outer_of_mean, start) == {}
    torch.testing.assert_close(outer_update(spec.outer_of_mean, CODED, start, change, ["w"])["w"], torch.tensor([1.65]))
    build(spec, tmp_path)
    loaded = load_job(tmp_path)
    assert set(loaded.global_state) == {"0.weight", "0.bias", "1.weight", "1.bias"}
    assert {f"{RESIDUE}0.weight", f"{MOMENTUM}0.weight"} < set(loaded.local_state)


@pytest.mark.parametrize("count", [1, 4, 16, 64, 200])
@pytest.mark.parametrize("size", [64, 256, 4096])
def test_the_largest_are_those_of_a_whole_sort(size: int, count: int) -> None:
    """Also of many equal magnitudes: the first are taken, although groups are compared first."""
    generator = torch.Generator().manual_seed(count)
    whole = torch.randint(-3, 4, (19, size), generator=generator).float()
    few = torch.where(torch.rand(19, size, generator=generator) < 0.01, torch.randn(19, size, generator=generator), 0.0)
    for rows in (torch.randn(19, size, generator=generator), whole, few, torch.zeros(19, size)):
        wanted = torch.sort(-rows.abs(), dim=1, stable=True).indices[:, :count]
        places, values = largest(rows, min(count, size))
        assert torch.equal(places, wanted)
        assert torch.equal(values, rows.gather(1, wanted))


@pytest.mark.parametrize(("size", "count", "group"), [(4096, 64, 8), (4096, 16, 16), (64, 64, 1), (64, 40, 1)])
def test_groups_are_as_large_as_sorts_least(size: int, count: int, group: int) -> None:
    assert group_size(size, count) == group


def test_a_change_whose_sum_overflows_has_no_update() -> None:
    _, close, _ = _codec(Sparse(keep=8, chunk=128))
    inputs = {f"moved.{name}": np.zeros(shape, np.float32) for name, shape in (("bias", (3,)), ("seen", ()))}
    inputs |= {"moved.w": np.full(SHAPE, 3e38, np.float32), f"local.{RESIDUE}w": np.zeros(SHAPE, np.float32)}
    with pytest.raises(NotFinite):
        run(close, inputs, 0, backend(Engine("numpy")))


@pytest.mark.parametrize("settings", [Sparse(), Quantised(block=1024), DGC()], ids=str)
def test_a_model_without_a_large_tensor_is_refused(settings: Update) -> None:
    trained = {"w": torch.zeros(20, 20)}
    with pytest.raises(JobError, match="together have 400 elements"):
        codec_of(settings, trained, trained, trained)
    assert codec_of(Dense(), trained, trained, trained) is None


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Sparse(keep=0), "update.keep"),
        (lambda: Sparse(keep=129, chunk=128), "update.keep"),
        (lambda: Sparse(chunk=100), "update.chunk"),
        (lambda: Sparse(chunk=32), "update.chunk"),
        (lambda: Sparse(bits=3), "update.bits"),
        (lambda: Sparse(decay=1.5), "update.decay"),
        (lambda: Quantised(bits=2), "update.bits"),
        (lambda: Quantised(block=100), "update.block"),
        (lambda: DGC(decay=1.5), "update.decay"),
        (lambda: DGC(warmup=(0,)), "update.warmup"),
        (lambda: DGC(warmup=[1]), "update.warmup"),  # type: ignore[arg-type]
    ],
)
def test_settings_that_make_no_sense(make: Callable[[], Update], field: str) -> None:
    with pytest.raises(JobError) as caught:
        make()
    assert caught.value.field == field
