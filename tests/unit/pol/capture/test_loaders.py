"""A DataLoader as training loops have it: what of it a job takes, and what is refused because it would be lost."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
)

from pol.capture.author.measures import cross_entropy
from pol.capture.author.spec import JobSpec, RowsInOrder, WeightedRows
from pol.capture.build import build_job
from pol.capture.data.columns import Scratch
from pol.capture.data.sources import JobData, read_data
from pol.errors import JobError
from pol.job.dataset import stream_rows
from pol.job.load import load_job
from pol.job.sampling import IN_ORDER, SHUFFLED, WEIGHTED
from pol.local.inspect import inspect_job
from pol.local.run import run_locally

ROWS, BATCH = 48, 8
X = np.random.default_rng(0).standard_normal((ROWS, 5)).astype("f4")
Y = (X[:, 0] > 0.8).astype("i8")
DATA = TensorDataset(torch.tensor(X), torch.tensor(Y))
OFTEN = 1 / np.bincount(Y)[Y]


def spec(train: Any, **changes: Any) -> JobSpec:
    torch.manual_seed(0)
    model = nn.Linear(5, 2)
    options = {
        "name": "loaded",
        "model": model,
        "loss": cross_entropy(),
        "holdout": DATA,
        "optimizer": torch.optim.SGD(model.parameters(), 0.3),
        "steps": 12,
        "weights": "keep",
        "precision": 22,
        **changes,
    }
    return JobSpec(train=train, **options)


def read(wanted: JobSpec, folder: Path) -> tuple[JobData, list[str]]:
    said: list[str] = []
    with Scratch(folder / "out") as scratch:
        return read_data(wanted, scratch, said.append), said


def trained(wanted: JobSpec, folder: Path) -> Mapping[str, np.ndarray]:
    build_job(wanted, folder)
    return run_locally(folder).state


def eager(batches: Iterator[Any]) -> dict[str, torch.Tensor]:
    model = spec(DATA, batch=BATCH).model
    optimizer = torch.optim.SGD(model.parameters(), 0.3)
    for _ in range(12):
        x, y = next(batches)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return dict(model.state_dict())


def _are_close(found: Mapping[str, np.ndarray], wanted: dict[str, torch.Tensor]) -> None:
    for name, tensor in wanted.items():
        np.testing.assert_allclose(found[name], tensor.numpy(), rtol=1e-4, atol=1e-5)


def _endlessly(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def test_a_loader_without_shuffle_trains_as_the_loop_over_it(tmp_path: Path) -> None:
    loader = DataLoader(DATA, BATCH)
    wanted = spec(loader)
    assert wanted.batch == BATCH
    _are_close(trained(wanted, tmp_path), eager(_endlessly(loader)))


def test_a_weighted_sampler_becomes_the_draw_of_the_job(tmp_path: Path) -> None:
    """The rare class comes as often as the other one, and what is trained is what such rows make of the model."""
    sampler = WeightedRandomSampler(OFTEN.tolist(), ROWS)
    found = trained(spec(DataLoader(DATA, BATCH, sampler=sampler)), tmp_path)
    loaded = load_job(tmp_path)
    assert loaded.job.document.sampling.order == WEIGHTED
    many = stream_rows(loaded.data, loaded.job, 0, 4_000)
    assert 0.47 < Y[many].mean() < 0.53 < 1 - Y.mean()

    def batches() -> Iterator[Any]:
        for number in range(12):
            rows = stream_rows(loaded.data, loaded.job, number * BATCH, BATCH)
            yield torch.tensor(X[rows]), torch.tensor(Y[rows])

    _are_close(found, eager(batches()))


@pytest.mark.parametrize("sampling", [WeightedRows(OFTEN), RowsInOrder()])
def test_a_job_that_goes_on_goes_on_in_its_order(tmp_path: Path, sampling: Any) -> None:
    def part(steps: int, name: str, **more: Any) -> Mapping[str, np.ndarray]:
        options = {"steps": steps, "batch": 5, "sampling": sampling, **more}
        build_job(spec(DATA, round_steps=2, **options), tmp_path / name)
        return run_locally(tmp_path / name, out=tmp_path / name / "run").state

    whole = part(6, "whole")
    part(4, "first")
    second = part(2, "second", resume=tmp_path / "first" / "run")
    for name, array in whole.items():
        np.testing.assert_array_equal(second[name], array)
    with pytest.raises(JobError, match="sampling: takes the rows shuffled in each epoch, but the result"):
        part(2, "other", resume=tmp_path / "first" / "run", sampling=None)


@pytest.mark.parametrize(
    ("sampling", "name"),
    [
        (WeightedRows(OFTEN), "row_weight"),
        (WeightedRows(torch.tensor(OFTEN)), "row_weight"),
        (WeightedRows(OFTEN.tolist()), "row_weight"),
        (WeightedRows("often"), "row_weight"),
        (WeightedRows("count"), "count"),
        (WeightedRows([3, 1] * 24), "row_weight"),
        (WeightedRows(np.array([True, False] * 24)), "row_weight"),
    ],
)
def test_weights_of_a_column_or_of_an_array_are_drawn_in_their_proportion(
    tmp_path: Path, sampling: WeightedRows, name: str
) -> None:
    data = {"x": X, "y": Y, "often": OFTEN.astype("f4"), "count": Y * 3 + 1}
    found, said = read(spec(data, batch=BATCH, sampling=sampling), tmp_path)
    assert found.sampling.weights == name
    whole = found.train[name]
    given = data[sampling.weights] if isinstance(sampling.weights, str) else sampling.weights
    wanted = np.asarray(given, np.float64)
    np.testing.assert_allclose(whole / whole.sum(), wanted / wanted.sum(), rtol=1e-9)
    assert any("the weights of the rows" in line for line in said) == (name != "count")


def test_whole_numbers_made_of_others_keep_their_proportion_to_the_last_bit(tmp_path: Path) -> None:
    tiny = np.array([2.0**-1000, 3 * 2.0**-1000] * 24)
    found, _ = read(spec(DATA, batch=BATCH, sampling=WeightedRows(tiny)), tmp_path)
    whole = found.train["row_weight"]
    assert (whole[1::2] == 3 * whole[::2]).all()
    assert 2**61 <= int(whole.sum()) <= 2**62


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ("z", "train has no column 'z'; give one of 'x', 'y'"),
        ([1.0] * 5, r"weights have the shape \[5\], but there are 48 rows"),
        ([-1] + [1] * 47, "the weight of row 0 is -1"),
        ([1.0] * 47 + [np.nan], "the weight of row 47 is nan"),
        ([np.inf] * 48, "the weight of row 0 is inf"),
        ([0] * 48, "all weights are 0"),
        ([0.0] * 48, "all weights are 0"),
        ([2**62] * 48, r"add up to 2\^63 or more"),
        (np.array([2**63] + [0] * 47, np.uint64), r"add up to 2\^63 or more"),
        (["a"] * 48, "weights are <U1"),
        ("x", r"weights have the shape \[48, 5\]"),
    ],
)
def test_weights_that_are_none_are_refused(tmp_path: Path, weights: Any, reason: str) -> None:
    with pytest.raises(JobError, match=f"sampling: .*{reason}"):
        read(spec(DATA, batch=BATCH, sampling=WeightedRows(weights)), tmp_path)


@pytest.mark.parametrize(
    ("loader", "order", "line"),
    [
        (lambda: DataLoader(DATA, BATCH, shuffle=True), SHUFFLED, "shuffled by the job's seed"),
        (lambda: DataLoader(DATA, BATCH), IN_ORDER, "because the loader has no shuffle=True"),
        (
            lambda: DataLoader(DATA, BATCH, sampler=RandomSampler(DATA, True, 20)),
            WEIGHTED,
            "drawn with replacement",
        ),
        (
            lambda: DataLoader(DATA, BATCH, sampler=RandomSampler(DATA, num_samples=20)),
            SHUFFLED,
            "all 48 rows once, instead of 20 rows",
        ),
        (
            lambda: DataLoader(DATA, batch_sampler=BatchSampler(SequentialSampler(DATA), BATCH, False)),
            IN_ORDER,
            "batches of 8 rows",
        ),
        (
            lambda: DataLoader(DATA, BATCH, sampler=SubsetRandomSampler(range(3, 40, 2))),
            SHUFFLED,
            "the 19 of its subset",
        ),
    ],
)
def test_the_order_of_a_loader_is_taken_and_said(
    tmp_path: Path, loader: Callable[[], Any], order: str, line: str
) -> None:
    found, said = read(spec(loader()), tmp_path)
    assert found.sampling.order == order
    assert any(line in text for text in said), said
    assert found.train["x"].shape == ((19 if "subset" in line else ROWS), 5)


def test_a_loader_of_other_data_sets_has_their_rows(tmp_path: Path) -> None:
    rows = import_module("datasets").Dataset.from_dict({"x": X.tolist(), "y": Y.tolist()})
    pairs = [(torch.tensor(x), int(y)) for x, y in zip(X, Y, strict=True)]
    sources: list[Any] = [rows, rows.with_format("torch"), pairs]
    for source in sources:
        found, _ = read(spec(DataLoader(source, BATCH, shuffle=True)), tmp_path)
        np.testing.assert_array_equal(found.train["x"], X)
        assert found.train["y"].tolist() == Y.tolist()


def test_a_subset_has_the_rows_that_its_sampler_names(tmp_path: Path) -> None:
    chosen = [7, 3, 40]
    loader = DataLoader(DATA, 2, sampler=SubsetRandomSampler(chosen))
    found, _ = read(spec(loader, holdout=DataLoader(DATA, 64, sampler=loader.sampler)), tmp_path)
    for columns in (found.train, found.holdout):
        assert np.array_equal(columns["x"], X[chosen])


@pytest.mark.parametrize(
    ("batch", "drop_last", "line"),
    [
        (10, False, "an epoch of the loader ends with a batch of 8; a job fills"),
        (10, True, "an epoch of the loader leaves out 8 rows; a job fills"),
        (8, True, None),
    ],
)
def test_the_end_of_an_epoch_is_said_where_it_differs(
    tmp_path: Path, batch: int, drop_last: bool, line: str | None
) -> None:
    loader = DataLoader(DATA, batch, shuffle=True, drop_last=drop_last)
    _, said = read(spec(loader), tmp_path)
    assert [text for text in said if "epoch of the loader" in text] == (
        [text for text in said if line in text] if line else []
    )
    assert not line or any(line in text for text in said)


class EverySecond(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(0, ROWS, 2))

    def __len__(self) -> int:
        return ROWS // 2


class Buckets(BatchSampler):
    pass


class Endless(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(())


@pytest.mark.parametrize(
    ("loader", "reason"),
    [
        (
            lambda: DataLoader(DATA, BATCH, sampler=EverySecond()),
            r"EverySecond cannot be used.*Subset",
        ),
        (
            lambda: DataLoader(DATA, BATCH, sampler=DistributedSampler(DATA, 2, 0)),
            r"divides the rows.*shuffle=True.*slots",
        ),
        (
            lambda: DataLoader(DATA, batch_sampler=Buckets(EverySecond(), BATCH, False)),
            "Buckets chooses the batches",
        ),
        (
            lambda: DataLoader(DATA, BATCH, sampler=WeightedRandomSampler([1.0] * ROWS, 8, replacement=False)),
            "draws no row twice.*replacement=True",
        ),
        (
            lambda: DataLoader(DATA, BATCH, sampler=WeightedRandomSampler([1.0] * 9, 8)),
            "9 weights for 48 rows",
        ),
        (lambda: DataLoader(Endless(), BATCH), "has no length.*without streaming"),
        (lambda: DataLoader(DATA, None), r"batch_size=None.*loader\.dataset"),
    ],
)
def test_what_a_job_would_lose_of_a_loader_is_refused(tmp_path: Path, loader: Callable[[], Any], reason: str) -> None:
    with pytest.raises(JobError, match=f"train: .*{reason}"):
        read(spec(loader(), **({"batch": 8} if "batch_size" in reason else {})), tmp_path)


@pytest.mark.parametrize("sampler", [WeightedRandomSampler([1.0] * ROWS, 8), RandomSampler(DATA, True), EverySecond()])
def test_a_holdout_has_no_draws(tmp_path: Path, sampler: Any) -> None:
    with pytest.raises(JobError, match=r"holdout: its \w+ cannot be used: each row"):
        read(spec(DATA, batch=8, holdout=DataLoader(DATA, 8, sampler=sampler)), tmp_path)


def test_a_holdout_needs_weights_only_where_its_loss_reads_them(tmp_path: Path) -> None:
    weighed = spec(
        {"x": X, "y": Y, "w": OFTEN.astype("f4")},
        batch=BATCH,
        holdout={"x": X, "y": Y},
        sampling=WeightedRows("w"),
    )
    with pytest.raises(JobError, match="holdout: its columns differ from those of train"):
        build_job(weighed, tmp_path / "floats")
    whole = {"x": X, "y": Y, "w": Y + 1, "w (all)": 2 * Y + 1}
    plain = {name: whole[name] for name in ("x", "y", "w")}
    named = spec(whole, batch=BATCH, holdout=plain, sampling=WeightedRows("w (all)"))
    trained(named, tmp_path / "named")
    about = inspect_job(load_job(tmp_path / "named").job)
    assert about.sampling == "drawn by the weights in w (all)"
    weighed = spec(plain, batch=BATCH, holdout={"x": X, "y": Y}, sampling=WeightedRows("w"))
    read_by_loss = replace(weighed, loss=cross_entropy(row_weight="w"))
    with pytest.raises(JobError, match="row 0 of the holdout fails: the data has no column 'w'"):
        build_job(read_by_loss, tmp_path / "read")
    read_by_metric = replace(weighed, metrics={"w": lambda _, batch: batch["w"].float().mean()})
    with pytest.raises(JobError, match="'w'"):
        build_job(read_by_metric, tmp_path / "metric")


def test_either_a_sampler_or_sampling(tmp_path: Path) -> None:
    loader = DataLoader(DATA, BATCH, sampler=WeightedRandomSampler([1.0] * ROWS, ROWS))
    with pytest.raises(JobError, match="sampling: is given, but the DataLoader of train already draws rows by weight"):
        read(spec(loader, sampling=RowsInOrder()), tmp_path)
    found, _ = read(spec(DataLoader(DATA, BATCH), sampling=WeightedRows("y")), tmp_path)
    assert found.sampling.weights == "y"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"train": DATA}, "batch: the number of rows per step is missing.*batch=32"),
        ({"train": DataLoader(DATA, 16), "batch": 8}, "batch: is 8, but .* batch_size=16"),
        ({"train": DATA, "batch": 8, "sampling": RowsInOrder}, "sampling: RowsInOrder is not an order"),
        (
            {"train": DATA, "batch": 8, "sampling": "w"},
            r"sampling: str is no.*WeightedRows\(\"w\"\)",
        ),
    ],
)
def test_a_batch_and_an_order_are_checked(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(JobError, match=reason):
        spec(**options)


# --- collate_fn ----------------------------------------------------------------------------------


class Texts(Dataset[Any]):
    """Rows of some tokens."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> Any:
        return {"ids": list(range(self.lengths[index])), "label": index % 2}


def by_name(rows: list[Any]) -> dict[str, Any]:
    ids = torch.tensor([row["ids"] for row in rows])
    return {"x": ids, "mask": ids > 1, "y": torch.tensor([row["label"] for row in rows])}


def padded(rows: list[Any], length: int | None = None) -> dict[str, Any]:
    longest = length or max(len(row["ids"]) for row in rows)
    ids = [row["ids"] + [0] * (longest - len(row["ids"])) for row in rows]
    return {"x": torch.tensor(ids), "y": torch.tensor([row["label"] for row in rows])}


def padded_to_nine(rows: list[Any]) -> dict[str, Any]:
    return padded(rows, 9)


def pair(rows: list[Any]) -> Any:
    x, y = default_collate(rows)
    return 2 * x, y


def mixed(rows: list[Any]) -> Any:
    x, y = default_collate(rows)
    return x + x.flip(0), y


def joined(rows: list[Any]) -> Any:
    return torch.cat([row["ids"] for row in map(torch.utils.data.default_convert, rows)])


def drawn(rows: list[Any]) -> Any:
    x, y = default_collate(rows)
    return x + torch.randn_like(x), y


def test_a_collate_fn_is_run_on_each_row(tmp_path: Path) -> None:
    for loader, wanted in (
        (DataLoader(Texts([4] * 6), 2, collate_fn=by_name), np.tile(np.arange(4), (6, 1))),
        (DataLoader(DATA, 2, collate_fn=pair), 2 * X),
        (DataLoader(Texts([3, 9, 5]), 2, collate_fn=padded_to_nine), None),
    ):
        found, said = read(spec(loader, holdout=loader), tmp_path)
        batch = next(iter(loader))
        first = batch["x"] if isinstance(batch, dict) else batch[0]
        np.testing.assert_array_equal(found.train["x"][:2], first)
        if wanted is not None:
            np.testing.assert_array_equal(found.train["x"], wanted)
        assert any("the loader's collate_fn, runs on each row alone" in line for line in said)


def drawn_seldom(rows: list[Any]) -> Any:
    x, y = default_collate(rows)
    return (x.flip(0) if random.random() < 1e-9 else x), y


def centred(rows: list[Any]) -> Any:
    x, y = default_collate(rows)
    return (x - x.mean(0) if len(x) > 2 else x), y


@pytest.mark.parametrize(
    ("loader", "reason"),
    [
        (lambda: DataLoader(Texts([3, 5, 3]), 2, collate_fn=padded), "changes a row if two rows are in a batch"),
        (lambda: DataLoader(Texts([3, 3, 5]), 2, collate_fn=padded), "row 2.*pad or crop the rows"),
        (lambda: DataLoader(DATA, 2, collate_fn=mixed), "two rows are in a batch.*in the loss"),
        (lambda: DataLoader(DATA, 2, collate_fn=drawn), "draws random numbers.*in the loss"),
        (
            lambda: DataLoader(DATA, 2, collate_fn=drawn_seldom),
            "draws random numbers.*in the loss",
        ),
        (lambda: DataLoader(DATA, 3, collate_fn=centred), "3 rows are in a batch.*in the loss"),
        (
            lambda: DataLoader(Texts([3, 5]), 2, collate_fn=len),
            "a int as part 0",
        ),
    ],
)
def test_what_a_collate_fn_does_to_several_rows_is_refused(
    tmp_path: Path, loader: Callable[[], Any], reason: str
) -> None:
    with pytest.raises(JobError, match=reason):
        read(spec(loader()), tmp_path)


def test_the_collator_of_transformers_gives_its_columns(tmp_path: Path) -> None:
    from transformers import default_data_collator

    rows = [{"x": [index, 1], "label": index % 2} for index in range(6)]
    found, _ = read(spec(DataLoader(rows, 2, collate_fn=default_data_collator)), tmp_path)  # type: ignore[arg-type]
    assert found.train["labels"].tolist() == [0, 1] * 3
    assert found.train["x"].tolist() == [row["x"] for row in rows]
