"""The rows: which job is trained by whom, in how many slots, and what goes wrong meanwhile."""

from dataclasses import dataclass, replace

from assay import Average, Dense, JobSpec, Nesterov, Quantised, Sparse
from examples import char_gpt, digits, lstm

AVERAGE, NESTEROV, DENSE = Average(), Nesterov(lr=0.7, momentum=0.6), Dense()
NUMPY, TORCH, SLOW = "", "torch", "slow"
"""Honest providers of unlike speed, as ``tests.support.market_network`` and ``localnet.cheats`` call them."""
CHEAT, SILENT = "skip_training@0", "never_answer@0"
_STEPS = {"digits": (40, 20, 5), "char-gpt": (12, 6, 2), "lstm": (20, 10, 2)}
"""Steps of the whole job, of a round and of a segment: a network takes seconds to train them."""


@dataclass(frozen=True)
class Row:
    """A job, the providers of the cluster that trains it, and what is killed while somebody trains.

    ``update`` is the form in which slots send their results. ``one_round`` makes one round of all steps, where several
    are usual. ``resumed`` lets the job go on from what another one of half its steps left, which was trained here.
    """

    name: str
    job: str
    providers: tuple[str, ...]
    slots: int
    outer: Average | Nesterov
    update: Dense | Sparse | Quantised = DENSE
    kill_validator: bool = False
    kill_provider: bool = False
    one_round: bool = False
    resumed: bool = False

    @property
    def faults(self) -> tuple[str, ...]:
        """What goes wrong, in words."""
        found = {
            "cheat": CHEAT in self.providers,
            "share re-issued": SILENT in self.providers,
            "validator killed": self.kill_validator,
            "provider killed": self.kill_provider,
        }
        return tuple(name for name, there in found.items() if there)


ROWS = (
    Row("digits-alone", "digits", (NUMPY,), 1, AVERAGE),
    # The same bits as in several rounds.
    Row("digits-one-round", "digits", (TORCH,), 1, AVERAGE, one_round=True),
    Row("digits-unlike", "digits", (TORCH, SLOW), 4, NESTEROV, resumed=True),
    Row(
        "digits-all-faults",
        "digits",
        (SILENT, CHEAT, SLOW, TORCH, NUMPY),
        4,
        AVERAGE,
        Quantised(bits=4, block=64),
        kill_validator=True,
        kill_provider=True,
    ),
    Row("gpt-alone", "char-gpt", (SLOW,), 1, NESTEROV, kill_provider=True),
    Row("gpt-reissued", "char-gpt", (SILENT, NUMPY), 4, AVERAGE, Sparse(keep=16, chunk=1024)),
    Row("gpt-cheat", "char-gpt", (CHEAT, NUMPY, NUMPY, SLOW, TORCH), 4, NESTEROV),
    Row("lstm-alone", "lstm", (NUMPY,), 4, NESTEROV),
    Row("lstm-validator", "lstm", (SLOW, TORCH), 1, AVERAGE, kill_validator=True),
    Row("lstm-provider", "lstm", (SLOW, SLOW, NUMPY, TORCH, NUMPY), 4, NESTEROV, kill_provider=True),
)
IN_MAKE_TEST = ("digits-unlike", "lstm-validator")
"""The rows that ``make test`` runs, one with each number of slots. ``make nightly`` runs all rows."""


def spec_of(row: Row) -> JobSpec:
    """Return the example of a row, short, and divided as the row says."""
    whole = {"digits": digits.job, "char-gpt": char_gpt.job, "lstm": lstm.job}[row.job]()
    steps, round_steps, segment_steps = _STEPS[row.job]
    return replace(
        whole,
        steps=steps,
        round_steps=steps if row.one_round else round_steps,
        segment_steps=segment_steps,
        batch=min(whole.batch, 16),
        slots=row.slots,
        outer=row.outer,
        update=row.update,
    )
