"""The part ``tolerance`` of a job: thresholds of exactly its tensors, and no part of the id that a profile names."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pol.errors import JobError
from pol.job.document import Job, dump_job, parse_job
from pol.job.strict_json import dump_json
from pol.job.tolerance import thresholds_of
from pol.rules.tolerance import LEAST_LARGEST, LEAST_MEAN, PARTS, PRECISIONS, THRESHOLD_MAX, Threshold

DATA = (Path(__file__).parents[3] / "fixtures" / "job_tiny" / "job.json").read_bytes()
EXACT = parse_job(DATA)
Change = Callable[[dict[str, Any]], object]


def part(names: list[str] | None = None, precision: str = "fp32") -> dict[str, Any]:
    """Return the JSON of a part with thresholds of all tensors of the job."""
    document = EXACT.document
    every = [
        *(f"global.{spec.name}" for spec in document.global_tensors),
        *(f"local.{spec.name}" for spec in document.local_tensors),
        *(f"metric.{name}" for name in document.metrics),
    ]
    rows = [{"name": name, "largest": PARTS, "mean": PARTS // 2} for name in (names or sorted(every))]
    return {"precision": precision, "thresholds": rows}


def job_with(change: Change = lambda part: None) -> Job:
    fields = json.loads(DATA)
    fields["tolerance"] = part()
    change(fields["tolerance"])
    return parse_job(dump_json(fields))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_job_with_the_part_is_read_and_written(precision: str) -> None:
    job = job_with(lambda part: part.update(precision=precision))
    tolerance = job.document.tolerance
    assert tolerance is not None
    assert tolerance.precision == precision
    assert thresholds_of(tolerance)["metric.loss"] == Threshold(largest=PARTS, mean=PARTS // 2)
    again = parse_job(dump_job(job.document))
    assert (again.id, again.document.tolerance) == (job.id, tolerance)


def test_a_profile_names_the_job_without_the_part() -> None:
    job = job_with()
    assert job.id != EXACT.id
    assert job.profiled_id == EXACT.id == EXACT.profiled_id
    assert job_with(lambda part: part.update(precision="bf16")).profiled_id == EXACT.id


def test_a_job_without_the_part_has_the_id_that_it_always_had() -> None:
    assert dump_job(EXACT.document) == DATA
    assert EXACT.document.tolerance is None


def row(index: int, **values: object) -> Change:
    return lambda part: part["thresholds"][index].update(values)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda part: part.update(precision="fp64"), "tolerance.precision"),
        (lambda part: part.update(device="cuda"), "tolerance.device"),
        (lambda part: part.pop("precision"), "tolerance.precision"),
        (lambda part: part.update(thresholds=[]), "tolerance.thresholds"),
        (lambda part: part["thresholds"].pop(), "tolerance.thresholds"),
        (lambda part: part["thresholds"].pop(0), "tolerance.thresholds[0].name"),
        (lambda part: part["thresholds"].reverse(), "tolerance.thresholds[0].name"),
        (lambda part: part["thresholds"].append(part["thresholds"][-1]), "tolerance.thresholds"),
        (lambda part: part.update(thresholds=part["thresholds"] * 10_000), "tolerance.thresholds"),
        (row(0, name="global.other"), "tolerance.thresholds[0].name"),
        (row(1, largest=LEAST_LARGEST - 1), "tolerance.thresholds[1].largest"),
        (row(1, mean=LEAST_MEAN - 1), "tolerance.thresholds[1].mean"),
        (row(1, mean=THRESHOLD_MAX + 1), "tolerance.thresholds[1].mean"),
        (row(1, largest=True), "tolerance.thresholds[1].largest"),
        (row(1, measured=1), "tolerance.thresholds[1].measured"),
    ],
)
def test_another_part_is_refused_with_field_and_remedy(change: Change, field: str) -> None:
    with pytest.raises(JobError) as caught:
        job_with(change)
    assert caught.value.field == field
    assert caught.value.remedy


def test_thresholds_below_the_least_would_let_a_consumer_take_bonds_of_honest_providers() -> None:
    at_least = job_with(row(1, largest=LEAST_LARGEST, mean=LEAST_MEAN))
    assert at_least.document.tolerance is not None


def test_the_part_is_left_out_and_not_null() -> None:
    fields = json.loads(DATA)
    fields["tolerance"] = None
    with pytest.raises(JobError) as caught:
        parse_job(dump_json(fields))
    assert caught.value.field == "tolerance"
    assert "remove the field" in caught.value.remedy
