"""What is measured of a place is what validators and seats do, and only where it ends as it should."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import replay
from benchmarks.networks import MODELS
from pol.capture.build import build


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> replay.ReplayCase:
    folder: Path = tmp_path_factory.mktemp("place")
    build(replace(MODELS["digits"](2), round_steps=2), folder / "job")
    return replay.opened(folder)


def test_every_part_is_a_row(place: replay.ReplayCase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "TURNS", 2)
    rows = list(replay.measured("digits", 2, {"eager": lambda: None, **replay.tasks(place)}))
    parts = {row.case.partition(", ")[2].partition(" (")[0] for row in rows[1:]}
    executors = ("native", "numpy")
    per_executor = ("replaying, {}", "validator, {}", "seat, {}", "seat, {}: hashing")
    wanted = {text.format(executor) for text in per_executor for executor in executors}
    assert parts == {"loading", "opening", *wanted}
    assert all(row.baseline == rows[0].value for row in rows[1:])


def test_the_shares_of_a_provider_are_rows(place: replay.ReplayCase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "PROVIDERS", 1)
    first, later = replay.provided("digits", place)
    assert "first share" in first.case
    assert "next share" in later.case
    # it finds the process and the job
    assert later.value < first.value


def test_what_ends_elsewhere_is_not_measured(place: replay.ReplayCase) -> None:
    other = replace(place, end=replace(place.end, root=bytes(32)))
    for name, task in replay.tasks(other).items():
        if name in ("loading", "opening"):
            task()
        else:
            with pytest.raises(RuntimeError):
                task()


def test_states_that_are_others_are_not_measured(place: replay.ReplayCase) -> None:
    other = replace(place, start=replace(place.start, root=bytes(32)))
    with pytest.raises(RuntimeError):
        replay.tasks(other)["opening"]()
