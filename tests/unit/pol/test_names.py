"""Names of tensors and columns: any printable characters, mapped to those of a job and back."""

import re
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F  # noqa: N812

from pol.capture.author.spec import SGD, Batch, JobSpec
from pol.capture.build import build
from pol.capture.loading import load_result
from pol.errors import NotFinite
from pol.job.dataset import batch_at
from pol.job.document import Job
from pol.job.load import load_job
from pol.local.run import run_locally
from pol.names import ModelNames, column_name, input_name, job_name, model_name
from pol.values import NAME

PIECES = st.sampled_from(["_", "x", "2d", "_x2d_", "-", "a", "/", "_x", "é", " ", "ff", "10ffff_"])
WORDS = st.one_of(st.text(min_size=1, max_size=12), st.lists(PIECES, min_size=1).map("".join))


@given(WORDS)
def test_a_name_comes_back_and_is_one_that_a_job_can_have(text: str) -> None:
    word = text.replace(".", "")
    if word:
        assert re.fullmatch(str(NAME.pattern), job_name(f"{word}.weight"))
    assert model_name(job_name(text)) == text
    assert model_name(column_name(text)) == text
    assert re.fullmatch(r"[A-Za-z0-9_]+", column_name(text))


@given(st.from_regex(r"[A-Za-z0-9]+(_[A-Za-wyz0-9]+|\.[A-Za-z0-9]+)*", fullmatch=True))
def test_a_name_that_a_job_can_have_stays(name: str) -> None:
    assert job_name(name) == model_name(name) == name


def test_names_as_they_are_written_in_a_job() -> None:
    assert job_name("block1-0.weight") == "block1_x2d_0.weight"
    assert input_name("batch.petal.length") == "batch.petal_x2e_length"
    assert input_name("global.a/b.bias") == "global.a_x2f_b.bias"
    # a stranger's document may hold what no character has
    assert model_name("_xffffff_") == "_xffffff_"
    assert NotFinite("head_x20__x28_2_x29_.weight").field == "head (2).weight"


DASHED = OrderedDict([("block1-0", nn.Linear(4, 6)), ("act", nn.ReLU()), ("head (2)", nn.Linear(6, 2))])
SLASHED = OrderedDict([("sequential/dense", nn.Linear(4, 6)), ("größe", nn.Linear(6, 2))])
LITERAL = OrderedDict([("a_x2d_b", nn.Linear(4, 6)), ("a-b", nn.Linear(6, 2))])


def _table(rows: int) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32 | np.int64]]]:
    x = np.random.default_rng(0).standard_normal((rows, 4)).astype("f4")
    return {"petal.length (cm)": x, "Art/Klasse": (x[:, 0] > 0).astype("i8")}


def _loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(model(batch["petal.length (cm)"]), batch["Art/Klasse"])


def _built(model: nn.Module, out: Path, accumulate: int = 1) -> Job:
    spec = JobSpec(
        name="names",
        model=model,
        loss=_loss,
        metrics={"top-1": lambda model, batch: _loss(model, batch) + 1},
        train=_table(32),
        holdout=_table(16),
        optimizer=SGD(momentum=0.9),
        schedule=0.1,
        batch=8,
        steps=4,
        accumulate=accumulate,
        weights="keep",
        ema=0.5,
    )
    return build(spec, out)


@pytest.mark.parametrize(("layers", "accumulate"), [(DASHED, 1), (SLASHED, 2), (LITERAL, 1)])
def test_a_model_with_such_names_trains_as_in_plain_torch(
    layers: "OrderedDict[str, nn.Module]", accumulate: int, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(OrderedDict((name, _fresh(layer)) for name, layer in layers.items()))
    plain = nn.Sequential(*(_fresh(layer) for layer in layers.values()))
    copies = (tensor.clone() for tensor in model.state_dict().values())
    plain.load_state_dict(dict(zip(plain.state_dict(), copies, strict=True)))
    _built(model, tmp_path, accumulate)
    run = run_locally(tmp_path, out=tmp_path / "run")
    assert set(run.after) >= {"loss", "top-1"}
    assert run.model is not None
    optimizer = torch.optim.SGD(plain.parameters(), 0.1, momentum=0.9)
    for x, y in _batches(tmp_path):
        optimizer.zero_grad()
        F.cross_entropy(plain(x), y).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    load_result(model, run.model)
    for one, other in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    # the file has the names of the model, for whoever reads it without us
    names = set(load_file(run.model))
    assert set(model.state_dict()) <= names
    assert {f"ema.{name}" for name, _ in model.named_parameters()} <= names
    again = nn.Sequential(OrderedDict((name, _fresh(layer)) for name, layer in layers.items()))
    load_result(again, run)
    assert all(map(torch.equal, again.state_dict().values(), model.state_dict().values()))


def _fresh(layer: nn.Module) -> nn.Module:
    return nn.Linear(layer.in_features, layer.out_features) if isinstance(layer, nn.Linear) else layer


def _batches(directory: Path) -> list[tuple[torch.Tensor, torch.Tensor]]:
    loaded = load_job(directory)
    found = []
    for number in range(4):
        batch = batch_at(loaded.data, loaded.job, number)
        x, y = (batch[input_name(f"batch.{name}")] for name in _table(1))
        found.append((torch.tensor(x), torch.tensor(y)))
    return found


def test_a_state_is_read_under_the_names_of_its_model() -> None:
    state = ModelNames({"a_x2d_b": 1, "c": 2})
    assert dict(state) == {"a-b": 1, "c": 2}
    assert len(state) == 2
    with pytest.raises(KeyError):
        state["a_x2d_b"]
