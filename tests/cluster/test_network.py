"""A provider on a network whose group is on two real nodes, of which one dies in mid-segment."""

from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from domain.ledger.queries import AccountRequest
from domain.market.reasons import CloseReason
from domain.proof.records import ShareState
from localnet.layout import Layout, ProviderSpec
from pol.local.run import run_locally
from pol.state.canonical import state_tree
from pol.work.cluster.seen import read_nodes
from tests.cluster.conftest import Nodes, kill, tree, until
from tests.support.market_network import change_settings, market_network, quick_params

PATIENT = 2_000
"""FLOP/s that providers are certified for: a lost node costs time, and its share is not late."""
SECONDS = 900.0

pytestmark = [
    pytest.mark.ray,
    pytest.mark.nightly,
    pytest.mark.timeout(1_500),
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'assay[ray]'"),
]


def members(node: int) -> list[psutil.Process]:
    """Return the members of groups on a node."""
    return [each for each in tree(node) if "pol.machines" in each.cmdline()]


def ended(provider: ProviderSpec) -> list[int]:
    """Return the number of tasks that ended on each node that computes."""
    seen = read_nodes(Path(provider.home) / "provider")
    return [sum(dict(node.ended).values()) for node in seen.nodes if not node.problem] if seen else []


def test_a_node_killed_in_mid_segment_costs_the_provider_nothing(nodes: Nodes, tmp_path: Path) -> None:
    """The node that is left delivers the share. For further shares the provider waits for a second node."""
    nodes.start()

    def use_cluster(layout: Layout) -> None:
        executor = f"ray://127.0.0.1:{nodes.port}"
        change_settings(layout.providers[0].home, "provider", executor=executor, machines="2")

    params = quick_params(accept_base=300, accept_max=600, progress_base=900)
    network = market_network(
        tmp_path / "network", (("", ""), (), ()), params, lambda _: PATIENT, rounds=2, configure=use_cluster
    )
    with network as market:
        provider = market.layout.providers[0]
        before = market.client.query(AccountRequest(provider.address)).bond
        market.bid("val0", "here")
        order = market.submit("here", time_to_live=600, deadline=7_200)
        until(lambda: bool(members(nodes.processes[-1].pid)), SECONDS)
        until(lambda: any((Path(provider.home) / "provider").rglob("1.global")), SECONDS)
        # Frozen, so that the group cannot end its segment before the node is gone.
        for member in members(nodes.processes[-1].pid):
            member.suspend()
        kill(nodes.processes[-1].pid)
        until(lambda: len(ended(provider)) == 1, SECONDS)

        def delivered() -> bool:
            shares = market.look(order).shares
            return any(
                share.claim.provider == provider.address and share.state is ShareState.ACCEPTED for share in shares
            )

        until(delivered, SECONDS)
        nodes.start()
        on_chain = order.wait_closed(SECONDS)
        assert order.close_reason is CloseReason.SETTLED
        assert on_chain.rounds[-1].next_root == state_tree(run_locally(market.job_directory).state).root
        assert {share.state for share in on_chain.shares} == {ShareState.ACCEPTED}
        assert order.paid("provider", to=provider.address) > 0
        after = market.client.query(AccountRequest(provider.address)).bond
        assert after.free == before.free
