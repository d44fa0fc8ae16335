"""The cells of the matrix: the process that is killed, and the phase of an order in which it is killed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from domain.market.records import OrderState
from domain.proof.queries import OrderResponse
from domain.proof.records import Panel, PanelState, Share, ShareState


class Process(StrEnum):
    """A kind of process of a network."""

    NODE = "node"  # the winner's node: the application, and CometBFT, which ends with it
    COMETBFT = "cometbft"  # only CometBFT of the winner's node, which starts it again
    VALIDATOR = "validator"  # the winner's daemon
    AUDITOR = "auditor"  # the daemon of a validator with a seat, or of one that may get a seat
    PROVIDER = "provider"  # the provider's daemon, and its worker, which ends with it
    WORKER = "worker"  # only the provider's worker, which the daemon starts again
    CONSUMER = "consumer"  # the consumer's waiting command
    WATCHTOWER = "watchtower"  # a watchtower of the consumer, which recomputes places of the order


class Phase(StrEnum):
    """A phase of an order."""

    MATCHING = "matching"
    ACCEPT = "accept"
    JOB_DELIVERY = "job delivery"
    TRAINING = "training"
    SHARE_DELIVERY = "share delivery"
    ROUND_CLOSED = "round closed"
    PANEL_COMMITS = "panel commits"
    PANEL_REVEALS = "panel reveals"
    WINDOW = "window"
    HAND_OVER = "hand-over"
    TAKING = "taking"


@dataclass(frozen=True)
class Cell:
    """A process and the phase in which it is killed."""

    process: Process
    phase: Phase

    @property
    def name(self) -> str:
        """The name by which ``--only`` chooses the cell."""
        return f"{self.process}/{self.phase}".replace(" ", "-")


_WITH_WORKER = (Phase.TRAINING, Phase.SHARE_DELIVERY)
"""Phases in which a worker runs."""


def _cells() -> tuple[Cell, ...]:
    """Return all cells so that any first part of them has many processes and many phases."""
    processes, phases = tuple(Process), tuple(Phase)
    cells = [
        Cell(process, phases[(place + shift) % len(phases)])
        for shift in range(len(phases))
        for place, process in enumerate(processes)
    ]
    return tuple(cell for cell in cells if cell.process is not Process.WORKER or cell.phase in _WITH_WORKER)


CELLS = _cells()
IN_MAKE_TEST = (
    Cell(Process.VALIDATOR, Phase.SHARE_DELIVERY),
    Cell(Process.NODE, Phase.PANEL_COMMITS),
)
"""The cells of ``make test``: phases in which most can be lost. ``tests/market/test_life.py`` kills a provider."""


def last_panel(on_chain: OrderResponse) -> Panel | None:
    """Return the panel of the newest closed round that has one."""
    return max(on_chain.panels, key=lambda panel: (panel.leg, panel.round), default=None)


def open_shares(on_chain: OrderResponse) -> list[Share]:
    """Return the shares of the open round."""
    leg = on_chain.current
    return [] if leg is None else list(on_chain.shares_of(leg.number, leg.round).values())


def _is_running(on_chain: OrderResponse) -> bool:
    return on_chain.order.state is OrderState.RUNNING


def _is_training(on_chain: OrderResponse) -> bool:
    """Return whether one provider of two has committed its share of the open round: the other one trains."""
    shares = open_shares(on_chain)
    return _is_running(on_chain) and 0 < len(shares) < on_chain.order.terms.slots


def _panel_not_open(on_chain: OrderResponse) -> bool:
    if not on_chain.rounds:
        return False
    closed = on_chain.rounds[-1]
    panel = on_chain.panel(closed.leg, closed.round)
    return panel is None or panel.state in (PanelState.WAITING, PanelState.DRAWING)


def _commits(on_chain: OrderResponse) -> bool:
    panel = last_panel(on_chain)
    return panel is not None and panel.is_open and panel.committed < panel.seats - panel.first_seat


def _reveals(on_chain: OrderResponse) -> bool:
    panel = last_panel(on_chain)
    return panel is not None and panel.is_open and panel.revealed < panel.committed == panel.seats - panel.first_seat


def _has_all_rounds(on_chain: OrderResponse) -> bool:
    return len(on_chain.rounds) == on_chain.order.terms.rounds


def _window(on_chain: OrderResponse) -> bool:
    """Return whether a decided round waits for the end of its window."""
    decided = [on_chain.round(panel.leg, panel.round) for panel in on_chain.panels if panel.is_decided]
    return any(closed is not None and not closed.verified for closed in decided)


def _is_handed_over(on_chain: OrderResponse) -> bool:
    return _has_all_rounds(on_chain) and on_chain.rounds[-1].verified


def _is_taken(on_chain: OrderResponse) -> bool:
    """Return whether the consumer took the last round, which is not verified, early."""
    leg = on_chain.current
    return _has_all_rounds(on_chain) and leg is not None and leg.is_taken(on_chain.rounds[-1].round)


HOLDS: dict[Phase, Callable[[OrderResponse], bool]] = {
    Phase.MATCHING: lambda on_chain: on_chain.order.state is OrderState.OPEN,
    Phase.ACCEPT: lambda on_chain: on_chain.order.state is OrderState.MATCHED,
    Phase.JOB_DELIVERY: lambda on_chain: _is_running(on_chain) and not on_chain.shares,
    Phase.TRAINING: _is_training,
    Phase.SHARE_DELIVERY: lambda on_chain: any(s.state is ShareState.COMMITTED for s in open_shares(on_chain)),
    Phase.ROUND_CLOSED: _panel_not_open,
    Phase.PANEL_COMMITS: _commits,
    Phase.PANEL_REVEALS: _reveals,
    Phase.WINDOW: _window,
    Phase.HAND_OVER: _is_handed_over,
    Phase.TAKING: _is_taken,
}
"""Whether an order is in a phase, by what the chain says of it."""


def chosen(names: Sequence[str]) -> list[Cell]:
    """Return the cells with these names, or of these processes or phases; all without a name. ValueError: no cell."""
    if not names:
        return list(CELLS)
    for name in names:
        if not any(_fits(cell, name) for cell in CELLS):
            raise ValueError(f"no cell is called {name}; the cells are {', '.join(cell.name for cell in CELLS)}")
    return [cell for cell in CELLS if any(_fits(cell, name) for name in names)]


def _fits(cell: Cell, name: str) -> bool:
    return name.replace(" ", "-") in (cell.name, cell.process.value, cell.phase.replace(" ", "-"))
