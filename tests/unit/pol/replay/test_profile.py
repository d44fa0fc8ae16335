"""Profiles come from other parties: they are read strictly, and their thresholds follow from what they measured."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from domain import codec
from pol.errors import ProfileError
from pol.replay import profile as module
from pol.replay.profile import (
    Profile,
    ProfiledControl,
    ProfiledSegment,
    merged_profile,
    profiled,
    read_profile,
    write_profile,
)
from pol.rules.tolerance import FAR, PARTS, SAME, Distance

MEASURED = {"global.w": Distance(largest=PARTS, mean=PARTS // 2), "metric.loss": SAME}
PROFILE = Profile(
    version=1,
    job=bytes(32),
    precision="fp32",
    margin=8,
    pairs=2,
    segment_steps=5,
    segments=(ProfiledSegment(round=0, slot=1, segment=2),),
    controls=(ProfiledControl(name="fp32 on cpu", machine="one", versions="torch 2"),),
    tensors=profiled(MEASURED, 8),
)


def test_a_profile_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    write_profile(PROFILE, file)
    assert read_profile(file) == PROFILE
    assert read_profile(file).thresholds["global.w"].mean == 8 * PARTS // 2


def _edit(change: Callable[[dict[str, Any]], object]) -> str:
    value = codec.to_plain(PROFILE)
    change(value)
    return json.dumps(value)


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("{", "profile.json"),
        ("[]", "profile.json"),
        ('{"version": 1, "version": 1}', "profile.json"),
        (_edit(lambda value: value.update(version=2)), "version"),
        (_edit(lambda value: value.update(margin=0)), "margin"),
        (_edit(lambda value: value.update(margin=9)), "tensors[0].threshold"),
        (_edit(lambda value: value.update(more=1)), "more"),
        (_edit(lambda value: value.update(job="00")), "job"),
        (_edit(lambda value: value.update(precision="fp8")), "precision"),
        (_edit(lambda value: value.update(tensors=[])), "tensors"),
        (_edit(lambda value: value["tensors"].reverse()), "tensors"),
        (_edit(lambda value: value["tensors"].append(value["tensors"][1])), "tensors"),
        (_edit(lambda value: value["tensors"][0]["threshold"].update(mean=2**32)), "tensors[0].threshold.mean"),
        (_edit(lambda value: value["tensors"][0]["threshold"].update(mean=1.5)), "tensors[0].threshold.mean"),
        (_edit(lambda value: value["tensors"][0]["threshold"].update(mean=1)), "tensors[0].threshold"),
        (_edit(lambda value: value["controls"][0].update(name="a\nb")), "controls[0].name"),
    ],
    ids=range(16),
)
def test_a_wrong_profile_is_refused_with_its_field(tmp_path: Path, text: str, field: str) -> None:
    file = tmp_path / "profile.json"
    file.write_text(text)
    with pytest.raises(ProfileError) as caught:
        read_profile(file)
    assert caught.value.field.endswith(field), caught.value
    assert caught.value.remedy


def test_a_profile_that_is_too_large_or_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "profile.json"
    with pytest.raises(ProfileError, match="cannot be opened"):
        read_profile(file)
    write_profile(PROFILE, file)
    monkeypatch.setattr(module, "FILE_SIZE_MAX", 100)
    with pytest.raises(ProfileError, match="more than 100"):
        read_profile(file)
    monkeypatch.setattr(module, "FILE_SIZE_MAX", 1 << 20)
    monkeypatch.setattr(module, "TOKENS_MAX", 10)
    with pytest.raises(ProfileError, match="more than 10"):
        read_profile(file)


def test_merged_profiles_have_the_largest_distances() -> None:
    other = replace(
        PROFILE,
        segments=(ProfiledSegment(round=0, slot=0, segment=0), *PROFILE.segments),
        controls=(replace(PROFILE.controls[0], machine="two"),),
        tensors=profiled(MEASURED | {"global.w": Distance(largest=1, mean=PARTS)}, 8),
    )
    merged = merged_profile([PROFILE, other, PROFILE])
    assert merged.tensors[0].measured == Distance(largest=PARTS, mean=PARTS)
    assert merged.thresholds["global.w"].largest == 8 * PARTS
    assert (len(merged.segments), len(merged.controls), merged.pairs) == (2, 2, 6)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"job": bytes([1] * 32)}, "job"),
        ({"precision": "bf16"}, "precision"),
        ({"margin": 4}, "margin"),
        ({"segment_steps": 1}, "segment_steps"),
        ({"tensors": PROFILE.tensors[:1]}, "tensors"),
    ],
)
def test_profiles_of_different_things_are_not_merged(change: dict[str, Any], field: str) -> None:
    with pytest.raises(ProfileError) as caught:
        merged_profile([PROFILE, replace(PROFILE, **change)])
    assert caught.value.field == f"profiles[1].{field}"


def test_a_tensor_that_no_threshold_can_judge() -> None:
    with pytest.raises(ProfileError) as caught:
        profiled({"global.w": FAR}, 8)
    assert caught.value.field == "global.w"


def test_loose_tensors() -> None:
    assert PROFILE.loose(MEASURED, 8) == ()
    assert PROFILE.loose(MEASURED, 7) == ("global.w", "metric.loss")
    assert PROFILE.loose(MEASURED | {"global.w": SAME}, 8) == ("global.w",)
