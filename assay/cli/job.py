"""``assay job``."""

import shutil
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from assay.cli.calibrate import calibrate
from assay.cli.context import CommandContext, common_options
from assay.cli.engine import engine_options, executor_option, machines_option
from assay.cli.errors import CliError
from assay.cli.fine_tuning import (
    TUNING_NAMES,
    fine_tuning_options,
    refuse_without_model,
    spec_of,
)
from assay.cli.machines import machine_options, plan_job
from assay.cli.outlook import look_at, network_options
from assay.cli.output import (
    counted,
    flops,
    load_line,
    resume_line,
    size,
    stages,
    step_progress,
    table,
)
from assay.cli.traffic import update_words
from domain.errors import Expected
from domain.limits import ROUNDS_MAX

if TYPE_CHECKING:
    from rich.table import Table

    from pol.executor.names import Engine
    from pol.job.document import Job
    from pol.local.groups import Machines
    from pol.local.run import LocalRun


@click.group(help="Build, inspect and run jobs.")
def command() -> None:
    """Group of job commands."""


command.add_command(calibrate)


@command.command(
    help="""Build a job from your Python file and write it as data.

    Only this machine runs the file, with your user rights. Its function job() returns a JobSpec: model, loss, data,
    hyper-parameters. See examples/digits.py in a checkout.

    Fine-tuning on a text needs no such file: --hf takes the configuration of a Hugging Face model instead.

    Examples: assay job build examples/digits.py -o ./digits

      assay job build --hf ./gpt2 --data book.txt --lora 8 -o ./tuned

      assay job build examples/digits.py --resume ./digits/run -o ./digits-more

      assay job build examples/digits.py --tolerance ./digits/profile.json -o ./digits
    """
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@fine_tuning_options
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    help="Continue from a result: a model.safetensors, or its folder.",
)
@click.option("-o", "--to", required=True, type=click.Path(path_type=Path), help="Folder to create.")
@click.option(
    "--check/--no-check",
    default=True,
    help="Compare one step of the job with one step of plain torch, and refuse a job that differs.  [check]",
)
@click.option(
    "--tolerance",
    type=click.Path(path_type=Path),
    help="A profile of this job, from `assay job calibrate`: the job may then be ordered in the tier tolerance.",
)
@network_options
@common_options
def build(
    context: CommandContext,
    file: Path | None,
    resume: Path | None,
    to: Path,
    check: bool,
    tolerance: Path | None,
    **options: Any,
) -> None:
    """Run a job file, capture its model, and write the job directory."""
    from pol.capture.graph.garbage import keep_for_good
    from pol.job.paths import DOCUMENT

    tuning = {option: options.pop(option) for option in TUNING_NAMES}
    if (file is None) == (tuning["hf"] is None):
        both = "neither is given" if file is None else "both are given"
        raise CliError(
            f"a job comes from a FILE or from --hf, but {both}",
            "give exactly one: assay job build FILE.py -o DIR, or assay job build --hf ./gpt2 --data book.txt -o DIR",
        )
    if to.exists() and (not to.is_dir() or (any(to.iterdir()) and not (to / DOCUMENT).exists())):
        raise CliError(f"{to} exists and is not a job's folder", "choose a new folder with -o")
    warnings: list[str] = []
    with stages(context.output) as begin_stage, _folder(to):
        note = _collect_warnings(begin_stage, warnings)
        build_job = _builder(note)
        if file is None:
            job = build_job(spec_of(tuning, note), to, note, resume, check, tolerance)
        else:
            refuse_without_model(tuning)
            with _errors_of(file):
                job = build_job(file, to, note, resume, check, tolerance)
    _show(context, job, to, options, {"warnings": warnings})
    keep_for_good()  # The process ends now; a last garbage collection over all modules and models would only take time.


def _collect_warnings(note: Callable[[str], None], warnings: list[str]) -> Callable[[str], None]:
    """Return a function that passes its text to ``note``, and appends the text to ``warnings`` if it is a warning."""
    from pol.capture.reports.notes import WARNING

    def collect(text: str) -> None:
        if text.startswith(WARNING):
            warnings.append(text.removeprefix(WARNING))
        note(text)

    return collect


@contextmanager
def _folder(to: Path) -> Iterator[None]:
    """Create the folder ``to`` before a build, and remove it if the build fails.

    A build can take a minute, so errors about the folder must come before the build. A folder that held files before
    the build is not removed.
    """
    was_there = to.exists()
    is_new = not was_there or not any(to.iterdir())
    to.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        if is_new:
            # The next build would refuse a folder that holds only a part of a job.
            shutil.rmtree(to, ignore_errors=True)
            if was_there:
                to.mkdir(exist_ok=True)
        raise


@command.command(
    help="""Check a job directory; show what the job needs and how long a network would take.

    The command does not ask a chain. For the times on a given chain, write the output of `assay query params
    --output json` to a file and name the file with --params. Give the speed that bids offer with --slot-speed.

    With --machines, the command also plans a step, and the end of a round, on several machines of one owner:
    stages, bytes and memory.

    Examples: assay job inspect ./digits --slot-speed 5000000000 --slots-at-once 2

      assay job inspect ./digits --machines 4 --machine-memory 8GiB
    """
)
@click.argument("directory", type=click.Path(path_type=Path))
@network_options
@machine_options
@common_options
def inspect(context: CommandContext, directory: Path, **options: Any) -> None:
    """Load a job with all its files, as a validator does, and describe it."""
    from pol.job.load import load_job

    job = load_job(directory).job
    machines = {name: options.pop(name) for name in tuple(options) if name.startswith("machine")}
    plans, tables = plan_job(job, **machines)
    _show(context, job, directory, options, plans, tables)


@command.command(
    help="""Train a job on this machine and write the model and a trace. On a network, the job has the same result.

    Examples: assay job run ./digits --rounds 1 -o ./digits/run

      assay job run ./digits --hardware

      assay job run ./gpt --machines 2 --memory 4GiB

      assay job run ./gpt --machines 2 --executor ray://10.0.0.1:6379
    """
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--rounds", type=click.IntRange(1, ROUNDS_MAX), help="Train only this number of rounds.")
@executor_option()
@engine_options()
@machines_option("train each slot together")
@click.option(
    "--hardware",
    is_flag=True,
    help="Compute steps as in the tier tolerance, if the job was built with --tolerance. Bits depend on the machine.",
)
@click.option(
    "--keep-states",
    is_flag=True,
    help="Keep all boundary states, so that `assay trace verify --segments N` can replay a few segments.",
)
@click.option("-o", "--to", type=click.Path(path_type=Path), help="Folder to write.  [DIR/run]")
@common_options
def run(
    context: CommandContext,
    directory: Path,
    rounds: int | None,
    executor: str,
    engine: "Engine",
    machines: "Machines",
    hardware: bool,
    keep_states: bool,
    to: Path | None,
) -> None:
    """Train a job on this machine, with a progress bar, and print the losses."""
    from pol.job.load import load_job
    from pol.local.run import run_locally
    from pol.replay.replay import RUN_FOLDER

    to = to or directory / RUN_FOLDER
    with step_progress(context.output) as bar:
        loaded = load_job(directory)
        document = loaded.job.document
        wanted = min(rounds or document.rounds, document.rounds)
        steps = wanted * document.round_steps * document.slots
        task = bar.add_task("training", total=steps)

        def stepped(round: int, slot: int, _step: int, loss: float) -> None:
            text = f"round {round}, slot {slot} loss {loss:.4f}"
            bar.update(task, advance=1, description=text)

        local_run = run_locally(directory, wanted, engine, stepped, to, keep_states, executor, machines, hardware)
    if hardware:
        context.output.note(
            "the steps were computed in hardware arithmetic: other machines have other bits, and `assay trace verify`"
            " does not reproduce this trace"
        )
    _print_run(context, loaded.job, local_run, to)


def _print_run(context: CommandContext, job: "Job", done: "LocalRun", to: Path) -> None:
    from pol.replay.replay import RUN_FOLDER

    names = [name for name in done.after if name != "majority_baseline"]
    losses = job.document.metrics
    rows: list[tuple[object, ...]] = [
        ("-", *("-" for _ in losses), *(f"{done.before[name]:.4f}" for name in names)),
        *(
            (
                r.round,
                *(f"{loss:.4f}" for loss in r.losses.values()),
                *(f"{r.metrics[name]:.4f}" for name in names),
            )
            for r in done.rounds
        ),
    ]
    columns = (
        "after round",
        *(f"training {name}" for name in losses),
        *(f"{name} (holdout)" for name in names),
    )
    baseline = done.after.get("majority_baseline")
    context.output.result(
        {
            "job": job.id,
            "before": done.before,
            "after": done.after,
            "rounds": [
                {
                    "round": r.round,
                    "training": r.losses,
                    "state_root": r.state_root,
                    **r.metrics,
                }
                for r in done.rounds
            ],
            "model": str(done.model),
            "training": str(done.training),
            "trace": str(done.trace),
        },
        [
            table(job.document.name, columns, rows),
            *([] if baseline is None else [f"majority class of the holdout: {baseline:.4f}"]),
            f"model: {done.model}",
            *([] if done.model is None else [load_line(done.model), resume_line(done.model)]),
            f"trace: {done.trace}; verify it: assay trace verify {done.trace} --job {to.parent}"
            if to.name == RUN_FOLDER
            else f"trace: {done.trace}; verify it: assay trace verify {done.trace} --job DIR",
        ],
    )


def _show(
    context: CommandContext,
    job: "Job",
    directory: Path,
    network: dict[str, Any],
    others: Mapping[str, object] = MappingProxyType({}),
    tables: Sequence["Table"] = (),
) -> None:
    from pol.job.document import order_terms
    from pol.local.inspect import inspect_job

    expected, lines, title = look_at(
        order_terms(job), network["params_file"], network["slot_speed"], network["slots_at_once"]
    )

    about = inspect_job(job)
    rows = [
        ("job id", about.id),
        ("trainable parameters", f"{about.parameters:,}"),
        *([("continues from step", f"{about.first_step:,}")] if about.first_step else []),
        ("steps", f"{about.steps:,}: {counted(about.rounds, 'round')} of {about.round_steps:,}"),
        ("slots, batch", f"{about.slots}, {about.batch} rows each"),
        ("segments", f"{about.segments:,} of {counted(about.segment_steps, 'step')}"),
        ("rows of data, times read", f"{about.rows:,}, {about.epochs:.1f}"),
        ("order of rows", about.sampling),
        (f"operations ({', '.join(about.nodes)})", ", ".join(map(str, about.nodes.values()))),
        (
            f"products per step of {', '.join(about.products)} bits",
            ", ".join(map(str, about.products.values())),
        ),
        ("work per step", flops(about.step_flops)),
        ("work per segment", flops(about.segment_flops)),
        *([("work per coded update", flops(about.close_flops))] if about.close_flops else []),
        ("work per aggregation", flops(about.outer_flops)),
        ("total work", flops(about.total_flops)),
        ("memory to train or check it", size(about.memory_bytes)),
        ("payload", size(about.payload_bytes)),
        ("global state", size(about.state_bytes)),
        ("local state per slot", size(about.local_state_bytes)),
        ("update of a slot", update_words(about.update, about.update_bytes, about.full_update_bytes)),
        *(
            [("in the tier tolerance", f"{about.precision}, {counted(about.thresholds, 'threshold')}")]
            if about.precision
            else []
        ),
        ("data root", about.data_root),
        ("initial global root", about.global_root),
        ("initial local root", about.local_root),
    ]
    heaviest = list(about.flops_by_operation.items())[:8]
    shares = [(name, flops(work), f"{100 * work / max(1, about.step_flops):.1f} %") for name, work in heaviest]
    context.output.result(
        {"directory": str(directory), **vars(about), "network": expected, **others},
        [
            table(f"Job {about.name} in {directory}", ("what", "value"), rows),
            table("Work per step", ("operation", "work", "share"), shares),
            table(title, ("what", "value"), lines),
            *tables,
        ],
    )


def _builder(note: Callable[[str], None]) -> Callable[..., "Job"]:
    """Import and return ``build_job``.

    The import loads torch, which takes seconds, so ``note`` announces it.
    """
    from pol.capture.graph.garbage import collected_later, keep_for_good

    note("loading torch")
    with collected_later():
        from pol.capture.build import build_job
    keep_for_good()
    return build_job


@contextmanager
def _errors_of(file: Path) -> Iterator[None]:
    """Turn an exception from the consumer's own job file into a CliError with the line of the file; raise other
    exceptions unchanged.
    """
    try:
        yield
    except Expected:
        raise
    except SyntaxError as error:
        raise CliError(str(error.msg), field=f"{file}, line {error.lineno}") from None
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f.lineno for f in frames if Path(f.filename).resolve() == file.resolve()]
        if not lines:
            raise
        name = type(error).__name__
        raise CliError(f"{name}: {error}", field=f"{file}, line {lines[-1]}") from None
