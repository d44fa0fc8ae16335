"""``assay trace``."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.context import CommandContext, common_options
from assay.cli.errors import CliError
from assay.cli.job import backend_option
from assay.cli.output import short, step_progress, table
from domain.limits import SHARE_SEGMENTS_MAX

if TYPE_CHECKING:
    from pol.replay.replay import Check


@click.group(help="Show and verify Proof-of-Learning traces.")
def command() -> None:
    """Group of trace commands."""


@command.command(help="Show the shares and roots of a trace file.\n\nExample: assay trace show ./digits/run/trace.json")
@click.argument("file", type=click.Path(path_type=Path))
@common_options
def show(context: CommandContext, file: Path) -> None:
    """Print one row per share of a trace; the hashes are recomputed, but no segment is replayed."""
    from pol.replay.trace_file import read_trace
    from pol.values import metric_values

    trace = read_trace(file)
    faults = [share.fault for share in trace.shares]
    rows = []
    for share, fault in zip(trace.shares, faults, strict=True):
        last = metric_values(share.boundaries[-1].metrics)
        rows.append(
            (
                share.round,
                share.slot,
                share.segments,
                # A boundary's number is the number of steps before the boundary, so the share's last step is one less.
                f"{share.boundaries[0].step}-{share.boundaries[-1].step - 1}" if share.segments else "-",
                f"{last[0]:.4f}" if last else "-",
                short(share.trace_root),
                fault or "correct",
            )
        )
    columns = ("round", "slot", "segments", "steps", "last loss", "trace root", "hashes")
    context.output.result(
        {
            "job": trace.job,
            "round_roots": trace.round_roots,
            "shares": [
                {
                    "round": share.round,
                    "slot": share.slot,
                    "segments": share.segments,
                    "trace_root": share.trace_root,
                    "update_root": share.update_root,
                    "fault": fault,
                }
                for share, fault in zip(trace.shares, faults, strict=True)
            ],
        },
        [f"job {trace.job.hex()}", table("Shares", columns, rows)],
    )


class Segments(click.IntRange):
    """A click type for a number of segments; the word ``all`` becomes 0."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of segments; 0 means all."""
        return 0 if value in ("all", 0) else super().convert(value, param, ctx)


@command.command(
    help="""Verify a trace: recompute its leaves and roots, replay segments of the job, and compare.

    By default, all segments are replayed from the job's initial state, and the results are compared with the file.
    --segments N replays N drawn segments of each share, including its first and last. Each replay begins
    from a state that `assay job run --keep-states` has kept beside the trace.

    Example: assay trace verify ./digits/run/trace.json --job ./digits --segments all
    """
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--job", "directory", required=True, type=click.Path(path_type=Path), help="The job directory.")
@click.option(
    "--segments",
    type=Segments(1, SHARE_SEGMENTS_MAX),
    default="all",
    show_default=True,
    help="Segments to replay per share: all, or a number.",
)
@backend_option
@common_options
def verify(context: CommandContext, file: Path, directory: Path, segments: int, backend: str) -> None:
    """Replay segments of a trace and compare the results with it; raise CliError if a check fails."""
    from pol.replay.replay import STATES_FOLDER, verify_trace
    from pol.replay.trace_file import read_trace

    with step_progress(context.output) as bar:
        trace = read_trace(file)
        task = bar.add_task("replaying segments", total=None)
        checks = verify_trace(
            trace,
            directory,
            segments=segments or None,
            states=file.parent / STATES_FOLDER,
            backend=backend,
            on_progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    wrong = [check for check in checks if not check.holds]
    context.output.result(
        {"job": trace.job, "holds": not wrong, "checks": [vars(check) for check in checks]},
        table(
            f"Trace of job {trace.job.hex()[:10]}…",
            ("round", "what", "segments", "replayed", "verdict"),
            [_row(check) for check in checks],
        ),
    )
    if wrong:
        raise CliError(f"the trace is wrong: {_where(wrong[0])}")


def _row(check: "Check") -> tuple[object, ...]:
    verdict = check.fault or "holds"
    if check.slot < 0:
        return (check.round, "aggregation", "-", "-", verdict)
    return (check.round, f"slot {check.slot}", check.segments, check.checked, verdict)


def _where(check: "Check") -> str:
    place = "aggregation" if check.slot < 0 else f"slot {check.slot}"
    return f"round {check.round}, {place}: {check.fault}"
