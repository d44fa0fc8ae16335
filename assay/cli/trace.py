"""``assay trace``."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from assay.cli.arguments import ROUND
from assay.cli.context import CommandContext, common_options
from assay.cli.engine import engine_options
from assay.cli.errors import CliError, WrongUsage
from assay.cli.output import counted, short, step_progress, table
from domain.limits import SHARE_SEGMENTS_MAX, SLOTS_MAX
from pol.executor.names import Engine

if TYPE_CHECKING:
    from pol.replay.narrow import Narrowed, TraceParty
    from pol.replay.replay import Check, CheckCost


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

    If the trace is wrong, the command names the first place at which it departs from the recomputation. --against OTHER
    compares two traces of the job instead. With records of that place beside the trace (assay trace record), the
    command names the step, the node, the turn of a repeat, and the operation. --inputs writes what the operation read.

    Example: assay trace verify ./digits/run/trace.json --job ./digits --against ../theirs/trace.json
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
@click.option("--against", type=click.Path(path_type=Path), help="Another trace of the same job to compare with.")
@click.option("--inputs", type=click.Path(path_type=Path), help="File (.npz) for the inputs that show a difference.")
@engine_options()
@common_options
def verify(
    context: CommandContext,
    file: Path,
    directory: Path,
    segments: int,
    against: Path | None,
    inputs: Path | None,
    engine: Engine,
) -> None:
    """Replay segments of a trace and compare the results with it; raise CliError if a check fails."""
    from pol.replay.replay import STATES_FOLDER, check_cost, verify_trace
    from pol.replay.trace_file import read_trace

    if against is not None:
        if segments:
            raise WrongUsage("--segments replays one trace", "leave it out to compare two traces with --against")
        _compare(context, file, against, directory, inputs, engine)
        return
    replayed = 0
    begun = perf_counter()
    with step_progress(context.output) as bar:
        trace = read_trace(file)
        task = bar.add_task("replaying segments", total=None)

        def count(done: int, total: int) -> None:
            nonlocal replayed
            replayed = done
            bar.update(task, completed=done, total=total)

        checks = verify_trace(
            trace,
            directory,
            segments=segments or None,
            states=file.parent / STATES_FOLDER,
            engine=engine,
            on_progress=count,
        )
    checked = perf_counter()
    wrong = [check for check in checks if not check.holds]
    found = _narrow(file, None, directory, engine) if wrong and wrong[0].is_narrowable else None
    narrowing = perf_counter() - checked if found is not None else 0.0
    cost = check_cost(trace, directory, replayed, checked - begun, narrowing)
    context.output.result(
        {
            "job": trace.job,
            "holds": not wrong,
            "checks": [vars(check) for check in checks],
            "difference": found.difference if found is not None else None,
            "cost": cost,
        },
        [
            table(
                f"Trace of job {trace.job.hex()[:10]}…",
                ("round", "what", "segments", "replayed", "verdict"),
                [_row(check) for check in checks],
            ),
            _cost_in_words(cost),
        ],
    )
    if found is not None:
        _keep_inputs(context, found, inputs)
        reason = f"the trace is wrong: {_where(wrong[0])}; {found.difference.sentence}"
        raise CliError(reason, found.difference.advice)
    if wrong:
        raise CliError(f"the trace is wrong: {_where(wrong[0])}")


def _narrow(file: Path, other: Path | None, directory: Path, engine: Engine) -> "Narrowed | None":
    """Return the first difference of a trace from another trace or from the recomputation; None if there is none."""
    from pol.executor.backend import backend as executor_of
    from pol.job.load import load_job
    from pol.replay.narrow import narrow
    from pol.replay.replay import check_trace_of

    loaded = load_job(directory)
    parties = [_party(file, "the trace" if other is None else str(file))]
    parties += [_party(other, str(other))] if other is not None else []
    for party in parties:
        check_trace_of(party.trace, loaded)
    second = parties[1] if other is not None else None
    return narrow(parties[0], second, loaded, executor_of(engine))


def _party(file: Path, name: str) -> "TraceParty":
    from pol.replay.narrow import TraceParty
    from pol.replay.place_record import RECORDS_FOLDER
    from pol.replay.replay import STATES_FOLDER
    from pol.replay.trace_file import read_trace

    return TraceParty(
        name=name, trace=read_trace(file), states=file.parent / STATES_FOLDER, records=file.parent / RECORDS_FOLDER
    )


def _compare(
    context: CommandContext, file: Path, other: Path, directory: Path, inputs: Path | None, engine: Engine
) -> None:
    """Print where two traces part; raise CliError if they do."""
    from pol.replay.trace_file import read_trace

    found = _narrow(file, other, directory, engine)
    job = read_trace(file).job
    same = f"{file} and {other} agree in all rounds that both have"
    context.output.result(
        {"job": job, "agree": found is None, "difference": found.difference if found is not None else None},
        same if found is None else [],
    )
    if found is not None:
        _keep_inputs(context, found, inputs)
        raise CliError(found.difference.sentence, found.difference.advice)


def _keep_inputs(context: CommandContext, found: "Narrowed", path: Path | None) -> None:
    """Write the arrays that show a difference to a file, if one is named."""
    if path is None:
        return
    import numpy as np

    if not found.arrays:
        context.output.note(f"{path} was not written, because the difference was not narrowed to a value")
        return
    with path.open("wb") as stream:
        arrays: dict[str, Any] = {name.replace(".", "_"): array for name, array in found.arrays.items()}
        np.savez(stream, **arrays)
    context.output.note(f"the inputs and the recomputed result are in {path}")


@command.command(
    help="""Recompute one place of a trace operation by operation, and write a hash of each result.

    Run it on the machine that made the trace. Two parties that disagree exchange such records: `assay trace verify`
    then names the first operation whose result differs. The record is beside the trace, in the folder `records`.

    Example: assay trace record ./digits/run/trace.json --job ./digits --round 0 --slot 1 --segment 4
    """
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--job", "directory", required=True, type=click.Path(path_type=Path), help="The job directory.")
@click.option("--round", type=ROUND, required=True, help="Number of the round.")
@click.option("--slot", type=click.IntRange(0, SLOTS_MAX), help="Slot of the segment or update.")
@click.option("--segment", type=click.IntRange(0, SHARE_SEGMENTS_MAX), help="Record this segment of --slot.")
@click.option("--update", is_flag=True, help="Record the update of --slot.")
@click.option("--aggregation", is_flag=True, help="Record the aggregation of the round.")
@engine_options()
@common_options
def record(
    context: CommandContext,
    file: Path,
    directory: Path,
    round: int,
    slot: int | None,
    segment: int | None,
    update: bool,
    aggregation: bool,
    engine: Engine,
) -> None:
    """Write the record of a place of a trace."""
    from pol.executor.backend import backend as executor_of
    from pol.job.load import load_job
    from pol.replay.narrow import make_record
    from pol.replay.place_record import RECORDS_FOLDER, record_name, write_record
    from pol.replay.replay import check_trace_of
    from pol.replay.walk import PlaceKind

    if (segment is not None) + update + aggregation != 1:
        raise WrongUsage("a record is of one place", "give --segment NUMBER, --update or --aggregation")
    if aggregation == (slot is not None):
        raise WrongUsage("a segment or an update is in a slot", "give --slot with it, and no --slot for --aggregation")
    kind = PlaceKind.AGGREGATION if aggregation else PlaceKind.UPDATE if update else PlaceKind.SEGMENT
    party, loaded = _party(file, str(file)), load_job(directory)
    check_trace_of(party.trace, loaded)
    made = make_record(party, loaded, executor_of(engine), kind, round, slot or 0, segment or 0)
    path = file.parent / RECORDS_FOLDER / record_name(kind, made.round, made.slot, made.segment)
    write_record(made, path)
    context.output.result(
        {"file": str(path), "values": len(made.hashes), "opening": made.opening, "closing": made.closing},
        f"{counted(len(made.hashes), 'value')} recorded in {path}",
    )


def _cost_in_words(cost: "CheckCost") -> str:
    replayed = (
        f"{counted(cost.segments, 'segment')} replayed ({cost.part:.1%} of the trace): {counted(cost.steps, 'step')}"
    )
    search = f"; {cost.narrowing_seconds:.1f} s more to narrow the difference" if cost.narrowing_seconds else ""
    return f"{replayed}, {cost.flops / 10**9:.3g} GFLOP, {cost.seconds:.1f} s{search}"


def _row(check: "Check") -> tuple[object, ...]:
    verdict = check.fault or "holds"
    if check.slot < 0:
        return (check.round, "aggregation", "-", "-", verdict)
    return (check.round, f"slot {check.slot}", check.segments, check.checked, verdict)


def _where(check: "Check") -> str:
    place = "aggregation" if check.slot < 0 else f"slot {check.slot}"
    return f"round {check.round}, {place}: {check.fault}"
