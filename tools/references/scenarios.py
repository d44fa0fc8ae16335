"""The page of the scenarios, from their tables."""

from localnet.comet_scenarios import COMET_SCENARIOS
from localnet.simulator.scenarios.table import SCENARIOS
from tools.references.markdown import code, page, table

COLUMNS = ("scenario", "what it shows", "fault")


def scenarios_page() -> str:
    """Return the page of the scenarios of both engines."""
    simulated = [(code(name), scenario.shows, scenario.fault) for name, scenario in SCENARIOS.items()]
    real = [(code(name), scenario.shows, scenario.fault) for name, scenario in COMET_SCENARIOS.items()]
    return page(
        "Scenarios",
        "In a scenario a party behaves badly in one way. `assay localnet scenario NAME` plays it, and shows who was at"
        " fault and where each coin went. `--all` plays all scenarios, and `--output json` prints a list of objects:",
        table(
            ("field", "meaning"),
            (
                ("`scenario`, `engine`", "the scenario, and the engine that played it"),
                ("`expected_fault`", "the fault of the table below"),
                ("`fault`", "the fault that the chain's records show, as role and reason"),
                ("`coins_conserved`", "no coin appeared or was lost"),
                ("`closed_in_time`", "every order was closed by its last deadline"),
                (
                    "`honest_unharmed`",
                    "no honest party paid more than fees, verified work, and the fee of a job that validators declined",
                ),
                ("`ok`", "the fault is the expected one, the subject of the scenario happened, and the rest holds"),
            ),
        ),
        "The fault comes from the chain's events alone. Of some faults no one can tell which of two parties is"
        " responsible: then the role names both, and neither pays the other.",
        "## Simulator",
        "The default engine plays a market of seven validators with three providers each, on a virtual clock. The"
        " chain and the decisions of all parties are the real code. Training is a hash, and signatures are made up. A"
        " scenario takes less than a second, and always plays the same market.",
        table(COLUMNS, simulated),
        "## Real processes",
        "`--engine comet` starts four validators with CometBFT and four providers, in a temporary directory. It trains"
        " a small job, and takes minutes for each scenario. Coins are those of the order's deposit, and the honest are"
        " judged by their bonds and stakes.",
        table(COLUMNS, real),
        source="localnet/simulator/scenarios/table.py and localnet/comet_scenarios.py",
    )
