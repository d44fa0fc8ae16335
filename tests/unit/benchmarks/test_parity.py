"""FP32 and exact arithmetic train the same thing, and what they come to is said side by side."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import mean

import numpy as np
import pytest

from benchmarks import __main__ as runner
from benchmarks import corpora, eager, parity
from benchmarks.networks import GPT
from benchmarks.parity import BACKWARDS, FP32, PRECISIONS, Trained
from pol.job.dataset import batch_at

STEPS = 12
TINY = {
    "gpt": replace(
        parity.MODELS["gpt"],
        corpus=lambda: corpora.text(8),
        steps=STEPS,
        batch=4,
        rates=(1e-2,),
        model=lambda corpus: GPT(8, 1, 8, corpus.classes),
    ),
    "digits": replace(
        parity.MODELS["digits"],
        steps=STEPS,
        rates=(3e-3,),
        model=lambda corpus: parity.Classifier(64, 16, corpus.classes),
    ),
}


def _trained(name: str, precisions: Sequence[str]) -> dict[str, Trained]:
    """The first so many of what is trained are these."""
    study = TINY[name]
    every = parity.train(study.spec(study.corpus(), study.rates[0], 1))
    found = dict(islice(every, len(precisions)))
    assert list(found) == list(precisions)
    return found


@pytest.mark.parametrize("name", TINY)
def test_all_train_the_same_batches_from_the_same_weights_at_the_same_rates(name: str) -> None:
    """Every step has the loss that it has in FP32: other rows would change it by far more."""
    found = _trained(name, [FP32, BACKWARDS, *PRECISIONS])
    fp32 = list(found[FP32].losses)
    assert len(fp32) == STEPS
    # steps differ more than what is allowed below
    assert np.abs(np.diff(fp32)).min() > 1e-3
    assert found[BACKWARDS].losses == pytest.approx(fp32, abs=1e-4)
    assert found["15 bits"].losses == pytest.approx(fp32, abs=3e-4)
    for precision in list(PRECISIONS)[1:]:
        # one step is one rounding; later ones add up
        assert found[precision].losses[0] == pytest.approx(fp32[0], abs=3e-2)
        assert found[precision].losses != found["15 bits"].losses


def test_other_batches_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this, the test above would show nothing."""
    monkeypatch.setattr(eager, "batch_at", lambda data, job, step: batch_at(data, job, step + 1))
    found = _trained("digits", [FP32, BACKWARDS, "15 bits"])
    assert abs(found[FP32].losses[0] - found["15 bits"].losses[0]) > 3e-4


def test_what_is_held_out_is_not_trained_on() -> None:
    for corpus in (corpora.text(64), corpora.digits()):
        rows = {row.tobytes() for row in corpus.train["x"]}
        kept = [row.tobytes() for row in corpus.holdout["x"]]
        # some lines of a text are there twice
        assert sum(row in rows for row in kept) <= 0.02 * len(kept)
        assert len(kept) > 300


def test_a_text_is_followed_by_its_next_characters() -> None:
    corpus = corpora.text(32)
    np.testing.assert_array_equal(corpus.train["x"][:, 1:], corpus.train["y"][:, :-1])
    assert corpus.train["x"].max() < corpus.classes
    assert "click 8." in corpus.source
    # uniform guesses would be worse
    assert 1.5 < parity.bigram_loss(corpus) < np.log(corpus.classes)


def _run(losses: list[float], held_out: float) -> Trained:
    return Trained(losses, {"loss": held_out})


def test_rows_compare_with_the_spread_of_fp32() -> None:
    decline = [2.0] * 19
    runs = {
        (FP32, 0.1): [_run([*decline, 1.0], 3.0), _run([*decline, 1.4], 3.0)],
        ("8 bits", 0.1): [_run([*decline, 1.5], 3.5), _run([*decline, 1.7], 3.0)],
    }
    fp32, ours, *held_out = parity.compared("gpt", runs)
    assert fp32.value == pytest.approx(1.2)
    assert fp32.baseline is None
    assert fp32.columns == {"least": 1.0, "most": 1.4, "spreads": None}
    assert [ours.value, ours.baseline] == pytest.approx([1.6, 1.2])
    assert ours.columns == {"least": 1.5, "most": 1.7, "spreads": pytest.approx(1.0)}
    assert ours.details["seeds"] == [1.5, 1.7]
    # seeds that agree have no spread to compare with
    assert [row.columns["spreads"] for row in held_out] == [None, None]
    assert [row.details.get("curves") is None for row in (ours, *held_out)] == [False, True, True]


def test_a_curve_ends_with_the_last_step() -> None:
    losses = [float(step) for step in range(100)]
    curve = _run(losses, 0.0).curve
    assert len(curve) == parity.POINTS
    assert curve[-1] == (100, mean(losses[97:]))
    assert _run(losses[:3], 0.0).curve == [(1, 0.0), (2, 1.0), (3, 2.0)]


def test_the_same_curves_are_the_same_drawing(tmp_path: Path) -> None:
    from benchmarks.curves import draw

    lines = {
        (name, rate): [[(1, 2.0), (2, shift)], [(1, 3.0), (2, rate)]]
        for rate in (0.1, 0.2)
        for shift, name in enumerate([FP32, *PRECISIONS])
    }
    for name in ("one", "two"):
        draw(lines, tmp_path / name / "curves.svg")
    one, two = ((tmp_path / name / "curves.svg").read_bytes() for name in ("one", "two"))
    assert one == two


def test_the_command_prints_rows_and_draws_curves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(parity, "MODELS", TINY)
    monkeypatch.setattr(parity, "SEEDS", (1, 2))
    options = ["--model", "digits", "--curves", str(tmp_path), "--output", "json"]
    assert runner.main(["parity", *options]) == 0
    drawn = (tmp_path / "parity-digits.svg").read_text()
    assert all(f">{name}<" in drawn for name in (FP32, *PRECISIONS, "learning rate 0.003"))
    said = capsys.readouterr()
    found = json.loads(said.out.splitlines()[0])
    assert len(said.err.splitlines()) == 2 * 5
    assert len(found["rows"]) == 3 * 5
    for row in found["rows"]:
        assert row["least"] <= row["value"] <= row["most"]
        assert len(row["seeds"]) == 2
        assert (row["baseline"] is None) == (row["precision"] == FP32)
    assert "SHA-256" in found["notes"][0]
    assert "scikit-learn" in found["notes"][0]
