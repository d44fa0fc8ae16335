"""The profile of a job: how far honest runs in hardware arithmetic are apart, and the thresholds that follow.

A profile is a JSON file, which anyone can measure again. Its reader is strict, since the file may come from another
party. Profiles of several machines can be merged into one.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final, TypeVar

from domain import bounds, codec, plain
from domain.bounds import Count, Hash, Length, Segment, Slot
from domain.errors import Refusal
from domain.limits import ROUNDS_MAX
from host.files import write_whole
from host.foreign_json import read_json
from pol.errors import JobError, ProfileError
from pol.job.files import read_file
from pol.rules.tolerance import MARGIN_MAX, PRECISIONS, Distance, Threshold, furthest, is_loose, threshold_of

Item = TypeVar("Item")

VERSION: Final = 1
FILE_SIZE_MAX: Final = 64 << 20
TOKENS_MAX: Final = 1 << 22
_LIST_MAX: Final = 1 << 16
_REMEDY: Final = "write the profile again with assay job calibrate"
_FLOATS: Final = "|".join(PRECISIONS)


@dataclass(frozen=True, slots=True)
class ProfiledSegment:
    """A segment on which honest runs were measured."""

    round: Annotated[int, bounds.Range(0, ROUNDS_MAX)]
    slot: Slot
    segment: Segment


@dataclass(frozen=True, slots=True)
class ProfiledControl:
    """A setting under which honest runs were measured: its name, the machine, and the versions of what computed."""

    name: Annotated[str, bounds.Visible(), bounds.Size(1, 256)]
    machine: Annotated[str, bounds.Visible(), bounds.Size(1, 256)]
    versions: Annotated[str, bounds.Visible(), bounds.Size(1, 256)]


@dataclass(frozen=True, slots=True)
class ProfiledTensor:
    """A tensor of the states, or a metric: the largest distance of honest runs, and its threshold."""

    name: Annotated[str, bounds.Visible(), bounds.Size(1, 1024)]
    measured: Distance
    threshold: Threshold


@dataclass(frozen=True, slots=True)
class Profile:
    """The thresholds of a job for hardware arithmetic, with the measurements that they come from.

    ``pairs`` is the number of honest pairs of end states that were compared. Each threshold is ``margin`` times the
    largest distance of these pairs.
    """

    version: Annotated[int, bounds.Range(VERSION, VERSION)]
    job: Hash
    precision: Annotated[str, bounds.Pattern("a precision", _FLOATS, f"use one of {', '.join(PRECISIONS)}")]
    margin: Annotated[int, bounds.Range(1, MARGIN_MAX)]
    pairs: Annotated[int, bounds.Range(1, 2**63 - 1)]
    segment_steps: Count
    segments: Annotated[tuple[ProfiledSegment, ...], Length(1, _LIST_MAX)]
    controls: Annotated[tuple[ProfiledControl, ...], Length(1, _LIST_MAX)]
    tensors: Annotated[tuple[ProfiledTensor, ...], Length(1, _LIST_MAX)]

    @property
    def thresholds(self) -> Mapping[str, Threshold]:
        """The threshold of each tensor and metric by name."""
        return {tensor.name: tensor.threshold for tensor in self.tensors}

    def loose(self, measured: Mapping[str, Distance], factor: int) -> tuple[str, ...]:
        """Return the tensors whose thresholds are more than ``factor`` times what honest runs were measured to have."""
        return tuple(
            tensor.name
            for tensor in self.tensors
            if tensor.name in measured and is_loose(tensor.threshold, measured[tensor.name], factor)
        )


def profiled(measured: Mapping[str, Distance], margin: int) -> tuple[ProfiledTensor, ...]:
    """Return the tensors of a profile, in name order.

    Raises ProfileError for a tensor that no threshold can judge.
    """
    tensors = []
    for name in sorted(measured):
        threshold = threshold_of(measured[name], margin)
        if threshold is None:
            raise ProfileError(
                name,
                "honest runs differ by more than 256 times its update, or one of them does not move it at all",
                "order this job in an exact tier, or leave this tensor out of the model's parameters",
            )
        tensors.append(ProfiledTensor(name=name, measured=measured[name], threshold=threshold))
    return tuple(tensors)


def merged_profile(profiles: Sequence[Profile]) -> Profile:
    """Return one profile of several, which has the largest distance of each tensor.

    Raises ProfileError if they are not of one job, one precision, one margin and the same tensors.
    """
    first, *others = profiles
    for index, other in enumerate(others, 1):
        for field in ("job", "precision", "margin", "segment_steps"):
            if getattr(other, field) != getattr(first, field):
                remedy = "merge profiles of one job that were measured with the same options"
                raise ProfileError(f"profiles[{index}].{field}", "is not that of the first profile", remedy)
        if [each.name for each in other.tensors] != [each.name for each in first.tensors]:
            raise ProfileError(f"profiles[{index}].tensors", "are not those of the first profile", _REMEDY)
    measured = {
        rows[0].name: furthest(row.measured for row in rows)
        for rows in zip(*(each.tensors for each in profiles), strict=True)
    }
    return replace(
        first,
        pairs=sum(each.pairs for each in profiles),
        segments=_each_once(segment for each in profiles for segment in each.segments),
        controls=_each_once(control for each in profiles for control in each.controls),
        tensors=profiled(measured, first.margin),
    )


def _each_once(items: Iterable[Item]) -> tuple[Item, ...]:
    return tuple(dict.fromkeys(items))


def write_profile(profile: Profile, path: Path) -> None:
    """Write a profile as JSON."""
    write_whole(path, json.dumps(codec.to_plain(profile), indent=1) + "\n")


def read_profile(path: Path) -> Profile:
    """Read a profile. ProfileError names the field that is wrong."""
    try:
        data = read_file(path.resolve(), str(path), FILE_SIZE_MAX)
    except JobError as error:
        raise ProfileError(error.field, error.reason, "name a profile that assay job calibrate wrote") from None
    try:
        value = read_json(data, TOKENS_MAX, unique=True)
    except ValueError as error:
        raise ProfileError(str(path), f"is not JSON that can be read: {error}", _REMEDY) from None
    try:
        profile = plain.read(Profile, value)
    except Refusal as refusal:
        raise ProfileError(refusal.field or str(path), refusal.reason, refusal.remedy or _REMEDY) from None
    if [each.name for each in profile.tensors] != sorted({each.name for each in profile.tensors}):
        raise ProfileError("tensors", "are not in the order of their names, each once", _REMEDY)
    for index, tensor in enumerate(profile.tensors):
        if threshold_of(tensor.measured, profile.margin) != tensor.threshold:
            reason = f"is not {profile.margin} times the largest measured distance"
            raise ProfileError(f"tensors[{index}].threshold", reason, _REMEDY)
    return profile
