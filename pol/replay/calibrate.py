"""The calibration of a job: honest runs of drawn segments under hardware controls, and how far they are apart.

One run in hardware arithmetic gives the states at the starts of the segments. Then each control runs all of them in a
process of its own, and every end is compared with every other as its reference.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import permutations
from pathlib import Path
from random import Random
from secrets import SystemRandom
from tempfile import TemporaryDirectory
from typing import Final

from host.process import start_child, stop_child
from pol.errors import ExecutionError, ProfileError
from pol.executor.hardware_backend import hardware_backend
from pol.executor.interface import Backend
from pol.job.document import JobDocument
from pol.job.load import LoadedJob, load_job
from pol.replay.controlled import REPORT, read_states, write_states
from pol.replay.controls import HardwareControl
from pol.replay.distances import SegmentEnd, distances
from pol.replay.profile import VERSION, Profile, ProfiledControl, ProfiledSegment, profiled
from pol.rules.tolerance import LOOSE, MARGIN, Distance, first_outside, furthest
from pol.state.arrays import State
from pol.work.records import RoundSlot
from pol.work.segments import SlotState, first_state, run_segment, slot_state
from pol.work.train import aggregate, share_update

SEGMENTS: Final = 8
_ROOT: Final = Path(__file__).parents[2]
OnRun = Callable[[str, int, int], None]
"""A function that receives what runs, the number of runs that ended, and the number of all runs."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two honest ends of a segment: the names of their controls, and the distances of one from the other."""

    place: ProfiledSegment
    reference: str
    other: str
    distances: dict[str, Distance]


@dataclass(frozen=True)
class Measurement:
    """All comparisons of the honest runs of a job.

    ``skipped`` names the controls that this machine could not run, with the reason.
    """

    job: bytes
    precision: str
    segment_steps: int
    places: tuple[ProfiledSegment, ...]
    controls: tuple[ProfiledControl, ...]
    skipped: tuple[tuple[str, str], ...]
    comparisons: tuple[Comparison, ...]

    @property
    def furthest(self) -> dict[str, Distance]:
        """The largest distance of each tensor in all comparisons."""
        names = sorted({name for each in self.comparisons for name in each.distances})
        return {name: furthest(each.distances[name] for each in self.comparisons) for name in names}

    def profile(self, margin: int = MARGIN) -> Profile:
        """Return the profile whose thresholds are ``margin`` times the largest distances.

        Raises ProfileError for a tensor that no threshold can judge.
        """
        return Profile(
            version=VERSION,
            job=self.job,
            precision=self.precision,
            margin=margin,
            pairs=len(self.comparisons),
            segment_steps=self.segment_steps,
            segments=self.places,
            controls=self.controls,
            tensors=profiled(self.furthest, margin),
        )


@dataclass(frozen=True)
class ProfileCheck:
    """The result of measuring a profile again.

    ``rejected`` has the honest comparisons that the profile rejects, each with its first tensor outside. ``loose``
    names the tensors whose thresholds are too far above what was measured.
    """

    pairs: int
    rejected: tuple[tuple[Comparison, str], ...]
    loose: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """True if all honest runs pass, and no threshold is loose."""
        return not self.rejected and not self.loose


def judge(profile: Profile, measured: Measurement, factor: int | None = None) -> ProfileCheck:
    """Return whether honest runs pass a profile, and whether it is loose.

    A threshold is loose if it is more than ``factor`` times the distance that was measured now; by default, four times
    the profile's margin. Raises ProfileError if it is of another job, or was measured in another precision.
    """
    for field in ("job", "precision", "segment_steps"):
        if getattr(profile, field) != getattr(measured, field):
            raise ProfileError(field, "is not that of the runs", "check the profile with its own job and precision")
    rejected = []
    for each in measured.comparisons:
        outside = first_outside(each.distances, profile.thresholds)
        if outside is not None:
            rejected.append((each, outside))
    return ProfileCheck(
        pairs=len(measured.comparisons),
        rejected=tuple(rejected),
        loose=profile.loose(measured.furthest, factor or LOOSE * profile.margin),
    )


def draw_segments(document: JobDocument, count: int, rounds: int, random: Random) -> tuple[ProfiledSegment, ...]:
    """Draw segments of the first rounds of a job, one from each of ``count`` equal parts of its time.

    If there are fewer segments, all are returned.
    """
    slots, length = document.slots, document.share_segments
    total = min(rounds, document.rounds) * slots * length
    count = min(count, total)
    numbers = [random.randrange(part * total // count, (part + 1) * total // count) for part in range(count)]
    places = []
    for number in numbers:
        # Segments of different slots that run at the same time have neighbouring numbers.
        at, slot = divmod(number, slots)
        places.append(ProfiledSegment(round=at // length, slot=slot, segment=at % length))
    return tuple(places)


def measure(
    directory: Path,
    controls: Sequence[HardwareControl],
    *,
    segments: int = SEGMENTS,
    rounds: int | None = None,
    runs: int = 1,
    random: Random | None = None,
    on_run: OnRun = lambda what, done, total: None,
) -> Measurement:
    """Run drawn segments of a job under controls, and compare all ends.

    The first control is the one that trains the job up to the last segment; it may not be exact arithmetic. The folder
    for temporary files needs room for both states, for each control, segment and run. Raises ExecutionError if a
    control fails, or if fewer than two ends can be compared; JobError if the job cannot be loaded; and Stopped if a
    step has no result.
    """
    loaded = load_job(directory)
    document = loaded.job.document
    first = controls[0].hardware
    if first is None:
        raise ExecutionError("controls", "the first control is exact; begin with a hardware arithmetic")
    if len(controls) * runs < 2:
        raise ExecutionError("controls", "there are no two ends to compare; take two controls or two runs")
    places = draw_segments(document, segments, rounds or document.rounds, random or SystemRandom())
    with TemporaryDirectory(prefix="assay-calibrate-") as name:
        starts = Path(name) / "starts"
        starts.mkdir()
        write_starts(loaded, places, hardware_backend(first), starts, on_run)
        ran, skipped, folders = [], [], []
        for index, control in enumerate(controls):
            to = Path(name) / str(index)
            to.mkdir()
            reason = _run_control(directory, control, places, runs, starts, to, on_run)
            if reason:
                skipped.append((control.name, reason))
                continue
            ran.append(ProfiledControl(name=control.name, **json.loads((to / REPORT).read_text())))
            folders.append((control.name, to))
        if len(folders) * runs < 2:
            reasons = "; ".join(f"{control}: {reason}" for control, reason in skipped)
            raise ExecutionError("controls", f"there are no two ends to compare ({reasons})")
        comparisons = tuple(_compare(document, places, starts, folders, runs))
    return Measurement(
        job=loaded.job.profiled_id,
        precision=first.precision,
        segment_steps=document.segment_steps,
        places=places,
        controls=tuple(ran),
        skipped=tuple(skipped),
        comparisons=comparisons,
    )


def write_starts(
    loaded: LoadedJob, places: Sequence[ProfiledSegment], backend: Backend, to: Path, on_run: OnRun
) -> None:
    """Train a job on a back end, and write the states at the start of each place into a folder.

    The training ends at the last place.
    """
    wanted = {(each.round, each.slot, each.segment): number for number, each in enumerate(places)}
    document = loaded.job.document
    total = sum(1 for _ in _until_last(document, places))
    locals_: dict[int, State] = dict.fromkeys(range(document.slots), loaded.local_state)
    ends: dict[int, SlotState] = {}
    opening = loaded.global_state
    for done, (round, slot, segment) in enumerate(_until_last(document, places)):
        part = RoundSlot(round, slot)
        if (slot, segment) == (0, 0) and round:
            updates = []
            for each in range(document.slots):
                result = share_update(loaded, opening, ends[each], backend)
                locals_[each] = result.local_out
                updates.append(result.update)
            opening = aggregate(loaded, opening, updates, backend).state
        at = slot_state(loaded, opening, locals_[slot]) if segment == 0 else ends[slot]
        if (round, segment) == (0, 0):
            at = first_state(loaded, slot, at)
        if (round, slot, segment) in wanted:
            write_states(to, str(wanted[round, slot, segment]), at)
        ends[slot], _ = run_segment(loaded, part, segment, at, backend, donate=True)
        on_run("training", done + 1, total)


def _until_last(document: JobDocument, places: Sequence[ProfiledSegment]) -> Iterator[tuple[int, int, int]]:
    """Yield round, slot and segment of a job in the order of training, up to the last of some places."""
    last = max((each.round, each.slot, each.segment) for each in places)
    for round in range(last[0] + 1):
        for slot in range(document.slots):
            for segment in range(document.share_segments):
                if (round, slot, segment) > last:
                    return
                yield round, slot, segment


def _run_control(
    directory: Path,
    control: HardwareControl,
    places: Sequence[ProfiledSegment],
    runs: int,
    starts: Path,
    to: Path,
    on_run: OnRun,
) -> str:
    """Run all segments under a control in a process of its own. Return why this machine cannot do it, or nothing."""
    task = {
        "hardware": None if control.hardware is None else asdict(control.hardware),
        "segments": [(each.round, each.slot, each.segment) for each in places],
        "runs": runs,
    }
    command: list[str | Path] = [
        sys.executable,
        "-P",
        "-m",
        "pol.replay.controlled",
        directory.resolve(),
        starts,
        to,
        json.dumps(task),
    ]
    paths = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    child = start_child(command, piped=True, environment={**control.environment, "PYTHONPATH": paths})
    done, line = 0, ""
    try:
        for raw in child.stdout or ():
            line = raw.decode(errors="replace").strip() or line
            done += line.isdecimal()
            on_run(control.name, done, len(places) * runs)
        code = child.wait()
    finally:
        stop_child(child)
        if child.stdout is not None:
            child.stdout.close()
    if code > 0:
        raise ExecutionError("controls", f"{control.name}: {line}")
    return f"ended by signal {-code}" if code else ""


def _compare(
    document: JobDocument, places: Sequence[ProfiledSegment], starts: Path, folders: list[tuple[str, Path]], runs: int
) -> Iterator[Comparison]:
    """Yield the comparison of each end of a segment with each other end as its reference."""
    for number, place in enumerate(places):
        start = read_states(starts, str(number), document)
        ends: list[tuple[str, SegmentEnd]] = [
            (name, read_states(folder, f"{number}-{run}", document)) for name, folder in folders for run in range(runs)
        ]
        for (reference, right), (other, left) in permutations(ends, 2):
            yield Comparison(place=place, reference=reference, other=other, distances=distances(start, right, left))
