"""Running a row: the job on this machine, the job on a network of real processes, and a hash of either's model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from assay import JobSpec
from compute_provider.work.worker import UPDATE
from consumer.result import fetch_result
from domain.errors import Expected
from domain.proof.reasons import ShareReason
from localnet.layout import ProviderSpec
from pol.capture.build import build
from pol.job.checkpoint import MODEL_FILE, POSITION_FILE, training_folder
from pol.job.document import order_terms
from pol.job.load import load_job
from pol.local.groups import Machines
from pol.local.run import run_locally
from pol.rules.schedule import share_work
from tests.same_bits.table import CHEAT, SILENT, SLOW, TORCH, Row, spec_of
from tests.support.market_network import (
    MarketNetwork,
    MarketOrder,
    market_network,
    quick_params,
)
from tests.support.waiting import wait_until

PARAMS = quick_params(progress_base=300, accept_base=60, accept_max=300)
"""Time enough for a busy machine."""
SECONDS = 900.0
DEADLINE = 1_200
AUDITING = 2
"""Validators without providers, which audit."""
_SHARE_SECONDS = {SLOW: 8, TORCH: 7, CHEAT: 5}
"""What a provider says that a share takes it; others need six. A cheat is quick, so that it is given one."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Outcome:
    """The hashes of a row's two models; ``error`` says why there is none, or why they do not count."""

    row: Row
    local_sha256: str
    network_sha256: str
    error: str = ""

    @property
    def same(self) -> bool:
        """Tell whether the row shows what it is there for."""
        return not self.error and self.local_sha256 == self.network_sha256 != ""


def run_rows(rows: Sequence[Row], tell: Tell) -> Iterator[Outcome]:
    """Run rows one after another; ``tell`` hears how it goes."""
    for number, row in enumerate(rows, 1):
        place = f"{number} of {len(rows)}, {row.name}"

        def tell_of(what: str, place: str = place) -> None:
            tell(f"{place}: {what}")

        with TemporaryDirectory(prefix="assay-same-bits-") as folder:
            yield run_row(row, Path(folder), tell_of)


def run_row(row: Row, folder: Path, tell: Tell) -> Outcome:
    """Build the job in ``folder`` and train it twice."""
    local = network = ""
    try:
        tell("building the job")
        job = folder / "job"
        build(spec_of(row) if not row.resumed else _resumed(row, folder), job)
        tell("training here")
        local = train_here(job, folder / "local")
        if row.one_round:
            rounds = folder / "rounds"
            build(spec_of(replace(row, one_round=False)), rounds)
            if train_here(rounds, folder / "local-rounds") != local:
                return Outcome(row, local, "", "several rounds end in another model here")
        network = train_on_network(row, job, folder / "network", tell)
        here, there = (_position(folder / place) for place in ("local", "network"))
        if here != there:
            return Outcome(row, local, network, "another job would go on from something else")
    except (AssertionError, Expected) as error:
        return Outcome(row, local, network, str(error))
    return Outcome(row, local, network)


def _resumed(row: Row, folder: Path) -> JobSpec:
    """Return a row's job as one that goes on from another, which is trained here."""
    spec = spec_of(row)
    assert spec.steps is not None
    build(replace(spec, steps=spec.steps // 2), folder / "before")
    return replace(spec, resume=run_locally(folder / "before"))


def _position(folder: Path) -> bytes:
    """Return what a result's files say about where the training stands, with the roots of all its states."""
    return (training_folder(folder / MODEL_FILE) / POSITION_FILE).read_bytes()


def train_here(job: Path, out: Path, machines: Machines = 1) -> str:
    """Return the hash of the model that ``assay job run --machines`` writes."""
    model = run_locally(job, out=out, machines=machines).model
    assert model is not None
    return sha256(model.read_bytes()).hexdigest()


def train_on_network(row: Row, job: Path, directory: Path, tell: Tell) -> str:
    """Return the hash of the model that ``assay order result`` writes, after all that the row says went wrong."""
    work = share_work(order_terms(load_job(job).job))

    def speed_of(way: str) -> int:
        """Say a speed at which a share may take seconds; who never answers gets all slots and no time."""
        return 1_000 * work if way == SILENT else max(1, work // _SHARE_SECONDS.get(way, 6))

    tell(f"starting a network of {len(row.providers)} providers")
    clusters = (row.providers, *[()] * AUDITING)
    with market_network(directory, clusters, PARAMS, speed_of, job=job) as market:
        market.bid("val0", "here")
        order = market.submit("here", deadline=DEADLINE)
        tell("training there")
        if row.kill_provider:
            killed = _kill_in_mid_share(market)
            tell(f"killed {killed} in mid-share, and started it again")
        if row.kill_validator:
            _kill_validator(market, order)
            tell("killed the validator in mid-round, and started it again")
        order.wait_verified(SECONDS)
        _check_faults(row, market, order)
        found = fetch_result(market.client, market.key, order.id, market.job, directory / "scratch")
        return found.save(directory / MODEL_FILE).hex()


def _busy(market: MarketNetwork) -> ProviderSpec | None:
    """Return an honest provider that is past the first segment of a share, and not at its end."""
    market.network.check_alive()
    honest = (spec for spec in market.members("val0") if spec.misbehave in ("", SLOW))
    return next((spec for spec in honest if _in_mid_share(spec)), None)


def _in_mid_share(spec: ProviderSpec) -> bool:
    folders = (Path(spec.home) / "provider" / "shares").glob("*")
    return any((f / "1.global").exists() and not (f / UPDATE).exists() for f in folders)


def _kill_in_mid_share(market: MarketNetwork) -> str:
    spec = wait_until(lambda: _busy(market), "a provider in mid-share", SECONDS)
    assert spec is not None
    market.network.kill(spec.name)
    assert _in_mid_share(spec), "the share was over when its provider was killed"
    market.network.start_one(spec.name)
    return spec.name


def _kill_validator(market: MarketNetwork, order: MarketOrder) -> None:
    wait_until(lambda: _busy(market), "a provider in mid-share", SECONDS)
    market.network.kill("val0.validator")
    on_chain = market.look(order)
    rounds = on_chain.order.terms.rounds
    assert len(on_chain.rounds) < rounds, "training was over when the validator was killed"
    market.network.start_one("val0.validator")


def _check_faults(row: Row, market: MarketNetwork, order: MarketOrder) -> None:
    """Refuse to speak of a fault that did not happen."""
    verdicts = market.verdicts("val0", order.id)
    for spec in market.members("val0"):
        if spec.misbehave not in ("", SLOW):
            found = {ShareReason(v.reason) for v in verdicts if v.provider == spec.address}
            assert found - {ShareReason.NONE}, f"{spec.misbehave} was not noticed"
    if SILENT in row.providers:
        again = [v for v in verdicts if v.issue > 1 and v.reason == ShareReason.NONE]
        assert again, "no share was re-issued"
