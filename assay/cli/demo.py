"""``assay demo``."""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Self

import click
from rich.live import Live
from rich.table import Table
from rich.text import Text

from assay.cli.context import CommandContext, common_options
from assay.cli.errors import CliError, WrongUsage
from assay.cli.output import flops, load_line, money, price, short, stderr, table
from pol.rules.tiers.table import DEFAULT_TIERS, tier_names
from pol.work.executor import LOCAL, address_of

if TYPE_CHECKING:
    from assay.cli.story import OrderFollower
    from domain.proof.queries import OrderResponse
    from localnet.demo import Finished, Moment
    from localnet.layout import Layout
    from localnet.network import Network

DEFAULT_DIRECTORY = "~/.assay/demo"
_QUIET_BLOCKS = 25
"""Number of blocks after which the progress line is printed again if stderr is not a terminal."""


class DemoExecutor(click.ParamType[Any]):
    """A click type for where the demo's daemons compute."""

    name = "local|ray|ray://HOST:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the value, if it is ``ray`` or a value of ``--executor`` of the daemons."""
        from localnet.machines import RAY

        text = str(value)
        try:
            if text != RAY:
                address_of(text)
        except ValueError as error:
            self.fail(f"{error}; or ray for a cluster that the demo starts", param, ctx)
        return text


@click.command(
    help="""Run everything on this machine: validators, providers, two real orders, a caught cheat, payment.

    Example: assay demo --output json
    """
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path),
    default=DEFAULT_DIRECTORY,
    show_default=True,
    help="Folder for the demo's files; an earlier demo in this folder is deleted.",
)
@click.option(
    "--job",
    type=click.Choice(["digits", "vision", "gpt", "finetune"]),
    default="digits",
    show_default=True,
    help="Model to train: a classifier (digits), a residual network (vision), a character GPT (gpt), or LoRA on that "
    "GPT (finetune). All but digits need assay[models].",
)
@click.option(
    "--keep",
    is_flag=True,
    help="Keep the network and its console running until Ctrl-C after the demo.",
)
@click.option(
    "--executor",
    type=DemoExecutor(),
    default=LOCAL,
    show_default=True,
    help="Where the daemons compute: in processes of their own (local), on a Ray cluster that the demo starts (ray,"
    " needs assay[ray]), or on your cluster.",
)
@click.option(
    "--machines",
    type=click.IntRange(1, 8),
    help="Let this number of processes compute each segment together; or the nodes of the cluster that the demo starts."
    "  [local: 1, ray: 2]",
)
@click.option(
    "--tier",
    type=click.Choice(tier_names()),
    default=DEFAULT_TIERS[0],
    show_default=True,
    help="Tier in which the orders are verified; docs/tiers.md compares them.",
)
@click.option(
    "--down",
    multiple=True,
    type=click.Choice(["val1", "val2", "val3"]),
    hidden=True,
    help="Do not start this validator and its cluster; one of four may be missing.",
)
@common_options
def command(
    context: CommandContext,
    directory: Path,
    job: str,
    keep: bool,
    executor: str,
    machines: int | None,
    tier: str,
    down: tuple[str, ...],
) -> None:
    """Run the demo and print its summary."""
    from assay.cli.console import console_beside
    from localnet.demo import Demo
    from localnet.layout import FILE
    from localnet.machines import RAY
    from localnet.supervisor import held, supervisor_of

    if machines is not None and executor not in (LOCAL, RAY):
        raise WrongUsage("--machines: a cluster that runs has its nodes", "leave out --machines")
    directory = directory.expanduser().resolve()
    if directory.exists():
        if any(directory.iterdir()) and not (directory / FILE).exists() and not (directory / "job").exists():
            raise CliError(
                f"{directory} holds files that are not an earlier demo's", "choose another folder with --dir DIRECTORY"
            )
        if other := supervisor_of(directory):
            raise CliError(
                f"process {other} runs a demo in {directory}",
                "wait until it ends, or choose another folder with --dir DIRECTORY",
            )
        shutil.rmtree(directory)
    directory.mkdir(parents=True)

    def begun(network: "Network") -> None:
        ticker.begin(network.layout)
        console.follow(*network.console_addresses, network.homes)

    with (
        held(directory),
        console_beside(None) as console,
        _Ticker(hidden=context.output.json) as ticker,
    ):
        ticker.say(f"console: {console.url}")
        console.pages.job_at = directory / "job"

        def stay(finished: "Finished") -> None:
            ticker.stop()
            _print(context, finished, directory)
            context.output.note(f"the network and the console at {console.url} run until Ctrl-C")
            with suppress(KeyboardInterrupt):
                Event().wait()

        finished = Demo(
            directory,
            ticker.show,
            down,
            job,
            begun=begun,
            done=stay if keep else lambda finished: None,
            executor=executor,
            machines=machines or (2 if executor == RAY else 1),
            tier=tier,
        ).run()
    if not keep:
        _print(context, finished, directory)


def _print(context: CommandContext, finished: "Finished", directory: Path) -> None:
    """Print the demo's summary, and write a plot of the loss to ``loss.png`` in ``directory``."""
    from localnet.demo import summary

    value = summary(finished, _quality(finished))
    _plot_file(finished, directory / "loss.png")
    context.output.result(value, [])
    if not context.output.json:
        _print_summary(context, finished, value, directory)


class _Ticker:
    """The demo's progress on stderr: lines that stay on the screen, above a live line that changes.

    The live line shows the height of the chain. It also shows the phase of the demo or, once there are orders, their
    progress.

    If stderr is not a terminal, the live line is printed every ``_QUIET_BLOCKS`` blocks.
    """

    def __init__(self, hidden: bool) -> None:
        self._hidden = hidden
        self._live = Live(Text(""), console=stderr, refresh_per_second=4, transient=True)
        self._phase, self._shown = "", 0
        self._stories: list[OrderFollower] = []

    def __enter__(self) -> Self:
        if stderr.is_terminal and not self._hidden:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Remove the live line."""
        self._live.stop()

    def say(self, text: str) -> None:
        """Print a line on stderr that stays above the live line."""
        stderr.print(text, markup=False)

    def begin(self, layout: "Layout") -> None:
        """Begin to follow the two orders; ``layout`` gives the names of the network's validators and providers."""
        from assay.cli.story import OrderFollower

        names = names_of(layout)
        self._stories = [OrderFollower("the first order", names), OrderFollower("the second order", names)]

    def show(self, moment: "Moment") -> None:
        """Print the events since the last moment, and update the live line."""
        if self._hidden:
            return
        loss: float | None = moment.loss
        for story, on_chain in zip(self._stories, moment.orders, strict=False):
            for line in story.news(on_chain, loss):
                self._stay(moment.height, line)
            loss = None  # A moment has the loss of the first order only.
        text = moment.phase if not moment.orders else _where(moment.orders)
        if stderr.is_terminal:
            self._live.update(Text(f"block {moment.height:>4}  {text}"))
        elif moment.height >= self._shown + _QUIET_BLOCKS or (not moment.orders and text != self._phase):
            self._stay(moment.height, text)
        self._phase = text

    def _stay(self, height: int, text: str) -> None:
        self._shown = height
        self.say(f"block {height:>4}  {text}")


def _where(orders: Sequence["OrderResponse"]) -> str:
    """Return a line of at most 80 columns with each order's progress and the event that the order waits for."""
    from consumer.watch import summarise, waits_for

    states = [(summarise(on_chain), waits_for(on_chain)) for on_chain in orders]
    return "; ".join(
        f"{name} {s.verified}/{s.rounds} paid, {text}" for name, (s, text) in zip(("1st", "2nd"), states, strict=False)
    )


def names_of(layout: "Layout") -> dict[str, str]:
    """Return the names of a network's providers and validators, by address."""
    providers = {spec.address: spec.name for spec in layout.providers}
    return providers | {spec.operator: spec.moniker for spec in layout.validators}


def _quality(finished: "Finished") -> dict[str, object]:
    """Return the quality of the model before and after training, measured on the consumer's own test set."""
    from pol.local.evaluate import quality_of

    return quality_of(finished.job_directory, finished.state)


def _plot_file(finished: "Finished", path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    rounds = [at for at, _ in finished.curve]
    axes.plot(rounds, [loss for _, loss in finished.curve], marker=".", linewidth=1)
    for end in range(1, len(finished.on_chain.rounds)):
        axes.axvline(end, color="0.8", linewidth=0.8)
    for round in {row.round for row in finished.verdicts if row.reason}:
        axes.axvspan(round, round + 1, color="tab:red", alpha=0.08)
        axes.text(
            round + 0.5,
            0.97,
            "a share was rejected",
            ha="center",
            va="top",
            color="tab:red",
            transform=axes.get_xaxis_transform(),
        )
    axes.set_xlabel("rounds trained")
    axes.set_ylabel("training loss (mean over slots)")
    axes.set_title(f"{finished.job.document.name}: loss at the boundaries of verified shares")
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _plot_terminal(finished: "Finished") -> str:
    import plotext

    plotext.clear_figure()
    plotext.plotsize(72, 16)
    plotext.theme("clear")
    plotext.plot([s for s, _ in finished.curve], [v for _, v in finished.curve], marker="braille")
    plotext.title("training loss by rounds trained")
    built: str = plotext.uncolorize(plotext.build())
    return built


def _print_summary(context: CommandContext, finished: "Finished", value: dict[str, Any], directory: Path) -> None:
    """Print the demo's summary as tables and sentences."""
    from assay.cli.story import cheat_sentence, tier_sentence

    names = names_of(finished.network.layout)
    payouts = value["payouts"]
    roles = {p.to: p.kind for p in finished.on_chain.payments if p.kind in ("provider", "validator", "auditor")}
    cheat, order, model = value["cheat"], value["order"], value["model"]
    document = finished.job.document
    rows: list[tuple[object, ...]] = [
        (
            names.get(address, short(address)),
            roles.get(address, ""),
            _did(finished, address),
            money(paid),
        )
        for address, paid in sorted(payouts.items(), key=lambda item: names.get(item[0], ""))
    ]
    rows.append(("protocol", "fee", "community pool", money(value["fees"])))
    rows.append(("consumer", "refund", "unused deposit", money(value["refund"])))
    if cheat["provider"]:
        where = f"caught in round {cheat['round']}; not paid"
        rows.append((names[cheat["provider"]], "cheat", where, money(0)))
    output = context.output
    output.note("")
    shown: list[str | Table] = [
        table("Work and payments of the first order", ("name", "role", "work", "amount"), rows),
        f"deposit {money(int(order['deposit']))} = payouts + refund + fees, exact to one uassay: "
        f"{'yes' if value['deposit_accounted'] else 'no'}",
        cheat_sentence(cheat, names, document.segment_steps, document.round_steps),
        tier_sentence(value["tier"], value["rounds_with_panel"], value["rounds"]),
        *_rival(finished, value["second_order"], names),
        f"work quoted {flops(int(order['flops_quoted']))}, verified {flops(int(order['flops_verified']))}",
        _plot_terminal(finished),
        f"{model['metric']} on data that no provider saw: {model['before']:.3f} before, "
        f"{model['after']:.3f} after ({_trivial(model)})",
        *_machines(finished),
        f"loss curve: {directory / 'loss.png'}",
        f"model: {finished.path}",
        load_line(finished.path),
        "next: assay localnet start, then follow docs/consumer.md with your own model "
        "(examples/digits.py shows how a job is written)",
    ]
    output.result(value, shown)


def _machines(finished: "Finished") -> list[Table]:
    """Return a table of the demo's machines, and what ran on each; none if each daemon computes by itself."""
    rows = [
        (
            machine.name,
            machine.address,
            daemon,
            ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in sorted(kinds.items())),
        )
        for machine in finished.machines
        for daemon, kinds in machine.ended.items()
    ]
    return (
        [table("What ran on which machine", ("machine", "address", "for", "tasks"), rows)] if finished.machines else []
    )


def _rival(finished: "Finished", second: dict[str, Any] | None, names: dict[str, str]) -> list[str]:
    """Return a list with one line about the second order, or about the replica of the first one; an empty list if there
    was none.

    The cluster with the next cheapest bid trained it.
    """
    if second is None:
        return []
    first = finished.on_chain.current
    same = "the same model, bit for bit" if second["same_model"] else "another model"
    workers = ", ".join(names.get(provider, short(provider)) for provider in second["providers"])
    if finished.on_chain.order.replicas:
        return [
            f"the replica at {names.get(second['validator'], 'no validator')} "
            f"({price(int(second['price_per_pflop']))}), where {workers} trained {same}; {_compared(finished)}"
        ]
    return [
        f"two orders at once: {names.get(first.validator if first else '', 'no validator')} had the cheapest bid "
        f"({price(finished.price)}) and sold all of it to the first order; the second went to "
        f"{names.get(second['validator'], 'no validator')} ({price(int(second['price_per_pflop']))}), where {workers} "
        f"trained {same}"
    ]


def _compared(finished: "Finished") -> str:
    """Return a phrase about the rounds of the first order that its replica confirmed."""
    from domain.proof.reasons import Comparison

    confirmed = sum(outcome == Comparison.CONFIRMED for outcome in finished.compared)
    compared = len(finished.compared)
    if confirmed == compared:
        return f"it confirmed all {compared} rounds"
    return f"it confirmed {confirmed} of {compared} rounds; the others had a panel"


def _trivial(model: dict[str, Any]) -> str:
    """Return a text with the baseline, which is the quality of a model that ignores its inputs."""
    if model["frequency_baseline"] is None:
        return f"majority class: {model['majority_baseline']:.3f}"
    return f"guessing by frequency: {model['frequency_baseline']:.3f}"


def _did(finished: "Finished", address: str) -> str:
    """Return a few words about the work that the provider or validator at ``address`` did for the first order."""
    on_chain = finished.on_chain
    shares = sum(not v.reason and v.provider == address for v in finished.verdicts)
    if shares:
        return f"trained {shares} accepted shares"
    if any(a.validator == address and a.settles_at for a in on_chain.legs):
        return f"ran the cluster, verified and proved {len(on_chain.rounds)} rounds"
    sat = [seat for seat in finished.seats if seat.validator == address and seat.answers]
    return f"recomputed {sum(len(seat.answers) for seat in sat)} places of {len(sat)} rounds"
