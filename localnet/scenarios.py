"""Scenarios of both engines: the simulator, and networks of real processes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from localnet.simulator.scenarios.scenario import COMET, SIMULATOR, Outcome

ENGINES = (SIMULATOR, COMET)


@dataclass(frozen=True)
class Row:
    """A scenario of an engine: its name, what it shows, and the function that plays it."""

    name: str
    shows: str
    fault: str
    play: Callable[[Callable[[str], None]], Outcome]


def scenarios_of(engine: str) -> tuple[Row, ...]:
    """Return the scenarios of an engine."""
    if engine == COMET:
        from localnet.comet_scenarios import COMET_SCENARIOS, play_on_comet

        return tuple(
            Row(name=real.name, shows=real.shows, fault=real.fault, play=partial(play_on_comet, real))
            for real in COMET_SCENARIOS.values()
        )
    from localnet.simulator.scenarios.playing import play_scenario
    from localnet.simulator.scenarios.table import SCENARIOS

    return tuple(
        Row(name=known.name, shows=known.shows, fault=known.fault, play=partial(play_scenario, known))
        for known in SCENARIOS.values()
    )


def play_rows(rows: Sequence[Row], note: Callable[[str], None]) -> Iterator[Outcome]:
    """Play scenarios one after the other; ``note`` gets a line for each that begins."""
    for number, row in enumerate(rows, 1):
        if len(rows) > 1:
            note(f"{number} of {len(rows)}: {row.name}")
        yield row.play(note)
