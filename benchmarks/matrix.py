"""The matrix of adversaries and checkers: how often each false claim is found, and what the check costs.

Rows are the adversaries A1 to A33 (:mod:`tests.security.attacks`). Columns are alarms and Proof-of-Learning as
baselines, each tier of the product with its draws, and a replay of every place as any party may do. A figure is the
part of lots with which the claim is found. The lots are drawn after the claim, 200 for each figure. A replay is done
once and serves all lots. In the column ``tolerance``, the same adversaries make claims of a twin of the job in hardware
arithmetic. The last rows have the honest claims that are rejected, and the steps that all parties of a
check run, as a part of the training.

``--segments N`` replays N segments of honest runs under the hardware controls of ``tests/support/controls.py``, and as
many under those of ``assay job calibrate``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.checkers.alarms import Alarms
from benchmarks.checkers.checker import Checker, Verdict
from benchmarks.checkers.exact import Everything, Panels, Replicas, steps_of
from benchmarks.checkers.honest import honest_rows
from benchmarks.checkers.products import product_rows
from benchmarks.checkers.proof_of_learning import ProofOfLearning
from benchmarks.checkers.rounding_log import rounding_rows
from benchmarks.checkers.tolerant import Tolerant, make_twin, tolerant_rows
from benchmarks.figures import Figures, Row
from pol.rules.tiers.table import all_tiers, default_tier
from pol.rules.tiers.tier import AnswerVerdict
from tests.security.attacks import ATTACKS, Attack, lots
from tests.security.lazy_seat import verdict_on
from tests.security.setting import Claim, Setting, make_setting

NAME = "matrix"
ROUNDS, LOTS, SEGMENTS = 5, 200, 500
SEATS = 3
FRAMED = 27
"""The adversary whose claim is honest: its row shows how often the framing succeeds."""
MODELS: Mapping[str, Attack] = {f"A{attack.number}": attack for attack in ATTACKS}


def checkers() -> tuple[Checker, ...]:
    """Return the columns."""
    tiers = [Replicas(tier) if tier.replicates else Panels(tier) for tier in all_tiers() if not tier.hardware]
    return (
        Alarms(),
        ProofOfLearning("top-Q"),
        ProofOfLearning("uniform"),
        *tiers,
        Tolerant(),
        Everything(default_tier()),
    )


@dataclass(frozen=True)
class Cell:
    """The verdicts of a checker on a claim: those with a fault, all of them, and the mean cost of one."""

    found: int
    lots: int
    cost: float
    fault: str

    @property
    def part(self) -> float:
        """The part of lots with which a fault is found."""
        return self.found / self.lots


def cell(checker: Checker, setting: Setting, claim: Claim, name: str, count: int) -> Cell:
    """Return the verdicts of a checker on a claim for ``count`` lots. The cost is a part of the job's steps."""
    judge = checker.examine(setting, claim)
    verdicts: list[Verdict] = [judge(lot) for lot in lots(count, name)]
    faults = [verdict.fault for verdict in verdicts if verdict.fault]
    cost = sum(verdict.steps for verdict in verdicts) / (len(verdicts) * steps_of(setting))
    return Cell(found=len(faults), lots=len(verdicts), cost=cost, fault=faults[0] if faults else "")


def row(name: str, cells: Mapping[str, Cell]) -> Row:
    """Return a row: the figures by column, and their counts in JSON."""
    return Row(
        case=name,
        value=cells[default_tier().name].part,
        unit="found",
        columns={column: each.part for column, each in cells.items()},
        details={
            f"{column}: counts": {"found": each.found, "lots": each.lots, "cost": each.cost, "fault": each.fault}
            for column, each in cells.items()
        },
    )


def run(models: list[str] | None = None, segments: int = SEGMENTS) -> Figures:
    """Play some adversaries, or all by default, and replay ``segments`` honest segments under hardware controls."""
    with TemporaryDirectory(prefix="assay-matrix-") as folder:
        setting = make_setting(Path(folder), ROUNDS)
        twin = make_twin(setting)
        rows = list(played(setting, twin.setting, [MODELS[name] for name in models] if models else ATTACKS))
        honest = [*honest_rows(setting, segments), *tolerant_rows(twin, segments)]
    whole = f"{default_tier().name}, all"
    missed = [each.case for each in rows if each.unit == "found" and each.columns.get(whole, 1.0) != 1.0]
    rejected = [each.case for each in honest if each.unit == "rejected" and each.value]
    notes = [f"{name}: not found by a replay of every place" for name in missed]
    notes += [f"{name}: honest work was rejected" for name in rejected]
    return Figures(NAME, [*rows, *honest, *rounding_rows(), *product_rows()], notes, failed=bool(missed or rejected))


def played(
    setting: Setting, twin: Setting, attacks: "list[Attack] | tuple[Attack, ...]", count: int = LOTS
) -> Iterator[Row]:
    """Yield the row of each adversary, and the rows of an honest claim.

    ``twin`` is the setting of the column ``tolerance``.
    """
    columns = checkers()

    def cells_of(name: str, make: Callable[[Setting], Claim]) -> dict[str, Cell]:
        claim, near = make(setting), make(twin)
        return {
            each.name: cell(each, twin, near, name, count)
            if isinstance(each, Tolerant)
            else cell(each, setting, claim, name, count)
            for each in columns
        }

    for attack in attacks:
        cells = cells_of(str(attack), attack.claim)
        made = row(str(attack), cells)
        yield (
            made
            if attack.number != FRAMED
            else Row(f"{attack}: rejected", made.value, "rejected", columns=made.columns)
        )
    lazy = sum(verdict_on(lot, SEATS) is not AnswerVerdict.RIGHT for lot in lots(count, "A26")) / count
    seats = {each.name: lazy if isinstance(each, (Panels, Replicas)) else None for each in columns}
    seats |= {each.name: 0.0 for each in columns if isinstance(each, ProofOfLearning)}
    yield Row("A26 lazy verifier: not paid for work", lazy, "of seats", columns=seats)
    cells = cells_of("honest", lambda each: each.honest)
    honest = row("honest claim: rejected", cells)
    yield Row(honest.case, honest.value, "rejected", columns=honest.columns, details=honest.details)
    costs = {column: each.cost for column, each in cells.items()}
    yield Row("cost of its check", costs[default_tier().name], "of training", columns=costs)
