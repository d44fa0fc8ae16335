"""``assay job calibrate``."""

from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.context import CommandContext, common_options
from assay.cli.errors import CliError, WrongUsage
from assay.cli.output import Output, counted, step_progress, table
from domain import codec
from domain.limits import ROUNDS_MAX
from host.devices.device import CPU
from pol.errors import ExecutionError
from pol.executor.hardware import Hardware
from pol.rules.tolerance import FP32, LOOSE, MARGIN, MARGIN_MAX, PARTS, PRECISIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pol.replay.calibrate import Measurement
    from pol.replay.profile import Profile

_SEGMENTS_MAX, _RUNS_MAX = 10_000, 100
_SHOWN = 12
"""Number of tensors in the table for people: those with the largest distances. JSON has all."""


@click.command(
    help="""Measure how far honest runs of a job in hardware arithmetic are apart, and write thresholds as a profile.

    In hardware arithmetic, torch computes with the ordinary kernels of a processor or a GPU, so two honest machines
    have different bits. The command trains the job once, draws segments, and runs each of them under controls that
    choose other kernels, threads and orders of summation. For each tensor, the profile has the largest distance of
    two honest ends relative to the tensor's update in the segment, and a threshold: this distance times --margin.

    --check runs again, on other segments, and reports whether honest runs pass a profile and whether the profile is
    loose. --merge joins the profiles of several machines instead of running.

    Examples: assay job calibrate ./digits --segments 16

      assay job calibrate ./digits --check ./digits/profile.json

      assay job calibrate ./digits --merge ./here.json --merge ./there.json --out ./digits/profile.json
    """
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--segments", type=click.IntRange(1, _SEGMENTS_MAX), default=8, show_default=True, help="Segments to draw."
)
@click.option("--rounds", type=click.IntRange(1, ROUNDS_MAX), help="Draw only from this number of rounds.  [all]")
@click.option(
    "--runs",
    type=click.IntRange(1, _RUNS_MAX),
    default=1,
    show_default=True,
    help="Runs of each segment under each control; a GPU may differ from itself.",
)
@click.option(
    "--margin",
    type=click.IntRange(1, MARGIN_MAX),
    default=MARGIN,
    show_default=True,
    help="Thresholds as a multiple of the largest distance of honest runs.",
)
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    default=FP32,
    show_default=True,
    help="Format of the operands of products; everything else is FP32.",
)
@click.option("--device", default=CPU, show_default=True, metavar="cpu|cuda|cuda:N", help="Device that computes.")
@click.option("--exact", is_flag=True, help="Exact arithmetic is one more control, so that exact runs pass too.")
@click.option("--check", "checked", type=click.Path(path_type=Path), help="A profile to measure again.")
@click.option(
    "--factor",
    type=click.IntRange(1, MARGIN_MAX),
    help=f"With --check: a threshold above this multiple of the new distances is loose.  [{LOOSE} times the margin]",
)
@click.option("--merge", "merged", multiple=True, type=click.Path(path_type=Path), help="A profile to merge; repeat.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Profile to write.  [DIR/profile.json]")
@common_options
def calibrate(
    context: CommandContext,
    directory: Path,
    segments: int,
    rounds: int | None,
    runs: int,
    margin: int,
    precision: str,
    device: str,
    exact: bool,
    checked: Path | None,
    factor: int | None,
    merged: tuple[Path, ...],
    out: Path | None,
) -> None:
    """Measure, check or merge profiles of a job."""
    if checked is not None and (merged or out is not None):
        raise WrongUsage("--check writes no profile", "leave out --merge and --out")
    if factor is not None and checked is None:
        raise WrongUsage("--factor belongs to a check", "add --check PROFILE")
    try:
        Hardware(precision=precision, device=device).check()
    except ExecutionError as error:
        raise WrongUsage(f"--{error.field}: {error.reason}") from None
    if merged:
        _merge(context, directory, merged, out)
        return
    from pol.replay.calibrate import measure
    from pol.replay.controls import find_controls
    from pol.replay.profile import read_profile, write_profile

    profile = None if checked is None else read_profile(checked)
    with _progress(context.output) as on_run:
        measured = measure(
            directory,
            find_controls(precision, device, exact=exact),
            segments=segments,
            rounds=rounds,
            runs=runs,
            on_run=on_run,
        )
    for name, reason in measured.skipped:
        context.output.note(f"skipped {name}: {reason}")
    if profile is not None:
        _show_check(context, profile, measured, factor)
        return
    profile = measured.profile(margin)
    path = out or directory / "profile.json"
    write_profile(profile, path)
    _show(context, profile, path)


@contextmanager
def _progress(output: Output) -> "Iterator[Callable[[str, int, int], None]]":
    """Yield a function that shows what runs, on a bar."""
    with step_progress(output) as bar:
        task = bar.add_task("loading", total=None)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield show


def _merge(context: CommandContext, directory: Path, paths: tuple[Path, ...], out: Path | None) -> None:
    """Write the profile that several profiles of this job make together."""
    from pol.job.load import load_document
    from pol.replay.profile import merged_profile, read_profile, write_profile

    if len(paths) < 2:
        raise WrongUsage("--merge joins several profiles, but only one is named", "name --merge once for each profile")
    profile = merged_profile([read_profile(path) for path in paths])
    if profile.job != load_document(directory).profiled_id:
        raise CliError(f"the profiles are not of the job in {directory}", "name the job directory that was calibrated")
    path = out or directory / "profile.json"
    write_profile(profile, path)
    _show(context, profile, path)


def _show(context: CommandContext, profile: "Profile", path: Path) -> None:
    widest = sorted(profile.tensors, key=lambda each: (-each.measured.mean, each.name))
    rows = [
        (
            each.name,
            _relative(each.measured.largest),
            _relative(each.measured.mean),
            _relative(each.threshold.largest),
            _relative(each.threshold.mean),
        )
        for each in widest[:_SHOWN]
    ]
    title = f"Distances of honest runs, as parts of the update in {counted(profile.segment_steps, 'step')}"
    columns = ("tensor", "furthest element", "mean element", "threshold, furthest", "threshold, mean")
    hidden = len(widest) - len(rows)
    context.output.result(
        {"profile": str(path), **_plain(profile)},
        [
            table(title, columns, rows),
            *([f"and {counted(hidden, 'tensor')} with smaller distances"] if hidden else []),
            *(f"control: {each.name} ({each.machine}; {each.versions})" for each in profile.controls),
            f"{counted(profile.pairs, 'pair')} of honest ends of {counted(len(profile.segments), 'segment')}; "
            f"margin {profile.margin}",
            f"profile: {path}; measure it again: assay job calibrate DIR --check {path}",
        ],
    )


def _show_check(context: CommandContext, profile: "Profile", measured: "Measurement", factor: int | None) -> None:
    """Print whether a profile holds; raise CliError if it does not."""
    from pol.replay.calibrate import judge

    limit = factor or LOOSE * profile.margin
    check = judge(profile, measured, limit)
    now, thresholds = measured.furthest, profile.thresholds
    rows = [
        (name, _relative(now[name].mean), _relative(thresholds[name].mean), "loose" if name in check.loose else "")
        for name in sorted(now, key=lambda name: (-now[name].mean, name))[:_SHOWN]
        if name in thresholds
    ]
    first = check.rejected[0] if check.rejected else None
    context.output.result(
        {
            "job": profile.job,
            "holds": check.holds,
            "pairs": check.pairs,
            "rejected": len(check.rejected),
            "first_rejected": None
            if first is None
            else {
                "place": codec.to_plain(first[0].place),
                "reference": first[0].reference,
                "other": first[0].other,
                "tensor": first[1],
            },
            "loose": list(check.loose),
            "factor": limit,
            "measured": {name: codec.to_plain(distance) for name, distance in now.items()},
        },
        [
            table("Mean distances of honest runs, as parts of the update", ("tensor", "now", "threshold", ""), rows),
            f"{len(check.rejected):,} of {counted(check.pairs, 'honest pair')} rejected",
        ],
    )
    if first is not None:
        comparison, tensor = first
        place = comparison.place
        raise CliError(
            f"the profile rejects honest work: {comparison.other}, compared with {comparison.reference}, is outside in "
            f"{tensor} (round {place.round}, slot {place.slot}, segment {place.segment})",
            "calibrate with more --segments or a larger --margin, or merge the profiles of both machines",
        )
    if check.loose:
        raise CliError(
            f"the profile is loose: the threshold of {check.loose[0]}, and of {len(check.loose) - 1} other tensors, is "
            f"more than {limit} times what honest runs need",
            "calibrate again, or check more --segments if this check drew few",
        )


def _relative(parts: int) -> str:
    """Return parts of an update as a number, for example ``1.2e-06``."""
    return f"{parts / PARTS:.2g}"


def _plain(profile: "Profile") -> dict[str, Any]:
    plain: dict[str, Any] = codec.to_plain(profile)
    return plain
