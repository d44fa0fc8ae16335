"""``assay localnet scenario``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from assay.cli.context import CommandContext, common_options
from assay.cli.errors import CliError, WrongUsage
from assay.cli.output import money, table

if TYPE_CHECKING:
    from rich.table import Table

    from localnet.simulator.scenarios.scenario import Outcome

SEE_THEM = "see them with assay localnet scenario --list"


@click.command(
    help="Play a scenario: a party behaves badly in one way. Shows who was at fault, and where each coin went.\n\n"
    "The simulator plays a market on a virtual clock: the chain and the decisions of all parties are real, and\n"
    "training is made up. With `--engine comet`, a scenario runs on a network of real processes, which takes minutes.\n"
    "The command ends with code 1 if a scenario does not end as the protocol says.\n\n"
    "Example: assay localnet scenario wrong-update"
)
@click.argument("name", required=False)
@click.option("--all", "every", is_flag=True, help="Play all scenarios of the engine, and show a table.")
@click.option("--list", "listed", is_flag=True, help="List the scenarios of the engine.")
@click.option(
    "--engine",
    type=click.Choice(["simulator", "comet"]),
    default="simulator",
    show_default=True,
    help="Play in the simulator, or on real processes with CometBFT.",
)
@common_options
def command(context: CommandContext, name: str | None, every: bool, listed: bool, engine: str) -> None:
    """Play one scenario or all of them; raise CliError if one does not end as the protocol says."""
    from localnet.scenarios import play_rows, scenarios_of

    rows = scenarios_of(engine)
    if listed:
        context.output.result(
            [{"scenario": row.name, "shows": row.shows, "expected_fault": row.fault} for row in rows],
            table("Scenarios", ("scenario", "shows"), [(row.name, row.shows) for row in rows]),
        )
        return
    if (name is None) is not every:
        raise WrongUsage("either one scenario or --all is needed", SEE_THEM)
    chosen = [row for row in rows if every or row.name == name]
    if not chosen:
        raise WrongUsage(f"the engine {engine} has no scenario {name}", f"{SEE_THEM} --engine {engine}", field="NAME")
    outcomes = list(play_rows(chosen, context.output.note))
    text = describe_all(outcomes) if every else describe(chosen[0].shows, outcomes[0])
    context.output.result([outcome.summary() for outcome in outcomes], text)
    wrong = [outcome.scenario for outcome in outcomes if not outcome.ok]
    if wrong:
        raise CliError(
            f"{len(wrong)} of {len(outcomes)} scenarios did not end as expected: {', '.join(wrong)}",
            "play one of them alone to see its coins: assay localnet scenario NAME",
        )


def describe_all(outcomes: Sequence["Outcome"]) -> "Table":
    """Return the table of ``--all``."""
    columns = ("scenario", "fault", "expected", "coins", "in time", "honest unharmed", "ok")
    rows = [
        (
            found.scenario,
            found.fault,
            found.expected_fault,
            _word(found.coins_conserved),
            _word(found.closed_in_time),
            _word(found.honest_unharmed),
            _word(found.ok),
        )
        for found in outcomes
    ]
    return table("Scenarios", columns, rows)


def describe(shows: str, outcome: "Outcome") -> list["str | Table"]:
    """Return what one scenario shows: the fault, the coins of each party, the payments, and the pots."""
    fault = outcome.fault if outcome.fault == outcome.expected_fault else f"{outcome.fault} (not expected)"
    parts: list[str | Table] = [shows, f"fault: {fault}"]
    if outcome.problem:
        parts.append(f"problem: {outcome.problem}")
    parts.append(f"orders: {', '.join(outcome.closed)}")
    findings = [(name or "-", text, count) for text, name, count in outcome.findings]
    parts.append(table("Findings of the chain", ("party", "finding", "times"), findings))
    changes = [
        (party.name, party.role, _word(party.is_honest), _signed(party.change), money(party.fees))
        for party in outcome.parties
        if party.change or party.fees or not party.is_honest
    ]
    parts.append(table("Coins of each party", ("party", "role", "honest", "change", "of which fees"), changes))
    paid = [(kind, to, money(amount)) for kind, to, amount in outcome.payments]
    parts.append(table("Payments of the orders", ("kind", "to", "amount"), paid))
    if outcome.pots:
        pots = [(name, _signed(amount)) for name, amount in outcome.pots]
        parts.append(table("Pots", ("pot", "change"), pots))
    parts.append(
        f"coins conserved: {_word(outcome.coins_conserved)}; closed in time: {_word(outcome.closed_in_time)};"
        f" honest parties unharmed: {_word(outcome.honest_unharmed)}"
    )
    return parts


def _word(holds: bool) -> str:
    return "yes" if holds else "no"


def _signed(amount: int) -> str:
    return money(amount) if amount <= 0 else f"+{money(amount)}"
