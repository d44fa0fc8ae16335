"""A network whose daemons each compute on two machines together: here, two processes per group."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from console.records import RecordWatcher
from console.server import Console
from domain.market.reasons import CloseReason
from domain.proof.records import ShareState
from localnet.layout import Layout
from localnet.machines import uses_of
from pol.local.run import run_locally
from pol.state.canonical import state_tree
from tests.support.market_network import MarketNetwork, change_settings, market_network, quick_params
from tests.unit.assay.support import assay
from tests.unit.console.conftest import ask

PATIENT = 5_000
"""FLOP/s that providers are certified for: a busy machine has time enough for a share."""
SECONDS = 600.0

# Tests of groups, pools and one job on several machines show the parts in make test.
pytestmark = [pytest.mark.timeout(900), pytest.mark.nightly]


def form_groups(layout: Layout) -> None:
    """Let every daemon compute on two processes together."""
    for table, homes in (("validator", layout.validators), ("provider", layout.providers)):
        for spec in homes:
            change_settings(spec.home, table, machines="2")


@pytest.fixture
def market(tmp_path: Path) -> Iterator[MarketNetwork]:
    params = quick_params(accept_base=300, accept_max=600, progress_base=900)
    clusters = (("", ""), (), ())
    with market_network(
        tmp_path / "network", clusters, params, lambda _: PATIENT, rounds=1, configure=form_groups
    ) as made:
        yield made


def test_an_order_settles_with_the_hash_of_one_process(market: MarketNetwork) -> None:
    """Shares, trials, replays and seats: each is the work of two processes, and the console shows both."""
    market.bid("val0", "here")
    order = market.submit("here", time_to_live=600, deadline=7_200)
    on_chain = order.wait_closed(SECONDS)
    assert order.close_reason is CloseReason.SETTLED
    assert on_chain.rounds[-1].next_root == state_tree(run_locally(market.job_directory).state).root
    # On a busy machine a share may be late, but none is wrong.
    assert ShareState.WRONG not in {share.state for share in on_chain.shares}
    uses = uses_of(market.layout)
    assert [use.name for use in uses] == ["machine 0", "machine 1"]
    for use in uses:
        assert {"prov0", "prov1"} <= use.ended.keys()
        kinds = {kind for ended in use.ended.values() for kind in ended}
        assert {"try_payload", "train_segment", "check_segment", "recompute_segment"} <= kinds
    with Console(0, probe=False) as console:
        watcher = RecordWatcher(console.known, market.network.homes)
        watcher.look()
        machines = ask(console, "/api/network").json()["machines"]
        page = ask(console, "/").text
        watcher.close()
    assert [machine["name"] for machine in machines] == ["machine 0", "machine 1"]
    assert "prov0" in " ".join(machines[1]["ended"])
    assert "machine 1" in page
    for table, home in (("validator", market.layout.validators[0].home), ("provider", market.layout.providers[0].home)):
        assert "machine 1" in assay(table, "status", home=home).out
