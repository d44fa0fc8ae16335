"""Opening the market of a local network: the market bonds and standing bids of its validators."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from chain.client.sender import TxSender
from compute_provider.api import status
from domain.ledger.messages import MsgDepositBond
from domain.market.messages import MsgPlaceBid
from domain.market.records import Offer
from domain.registry.queries import ProvidersRequest, ValidatorsRequest
from localnet.create import KEY, test_keyring
from localnet.layout import ProviderSpec, ValidatorSpec
from localnet.network import START_SECONDS, Network
from pol.rules.tiers.table import tier_names
from validator.decide.offer import best_offer

MARKET_BOND = 100_000_000_000
PRICE = 900_000_000_000
"""Price of the first validator's bid, the cheapest (uassay per PFLOP)."""
PRICE_STEP = 10_000_000_000
"""Price difference between the bids of successive validators (uassay per PFLOP)."""
CAPACITY = 10**16
PROVIDERS_BPS = 7_000
DURATION = 30 * 86_400


def open_market(
    network: Network,
    seconds: float = START_SECONDS,
    capacities: Mapping[str, int] = MappingProxyType({}),
    look: Callable[[], None] = lambda: None,
) -> None:
    """Deposit a market bond and place a bid for every running validator that has certified providers.

    A bid offers the certified speed of the validator's providers. The first validator's bid is the cheapest.
    ``capacities`` maps monikers to the FLOPs that their bids sell, in place of ``CAPACITY``. ``look`` is called
    repeatedly while the function waits for the providers.
    """
    _wait_for_endpoints(network, seconds)
    wait_for_clusters(network, seconds, look)
    running = {state.name for state in network.states() if state.running}
    for index, spec in enumerate(network.layout.validators):
        if f"{spec.moniker}.validator" not in running:
            continue
        key = test_keyring(Path(spec.home)).unlock(KEY)
        with network.client(spec) as client:
            cluster = client.query(ProvidersRequest(key.address, 1000, "")).providers
            slots, slot_speed = best_offer(cluster)
            if not slots:
                continue
            capacity = capacities.get(spec.moniker, CAPACITY)
            TxSender(client, key).send(
                MsgDepositBond(key.address, MARKET_BOND),
                MsgPlaceBid(
                    validator=key.address,
                    offer=Offer(
                        price=PRICE + index * PRICE_STEP,
                        slot_speed=slot_speed,
                        slots=slots,
                        device_class="cpu",
                        memory=1 << 30,
                        regions=("local",),
                        tiers=tier_names(),
                        min_work=1,
                        max_work=capacity,
                        providers_bps=PROVIDERS_BPS,
                    ),
                    capacity=capacity,
                    duration=DURATION,
                ),
            )


def wait_for_clusters(
    network: Network, seconds: float = START_SECONDS, look: Callable[[], None] = lambda: None
) -> None:
    """Wait until all running providers are certified, and have seen their certificates.

    A provider that has not seen its certificate yet gets no work.
    """
    running = {state.name for state in network.states() if state.running}
    expected = [spec for spec in network.layout.providers if spec.name in running]
    with network.client(_up(network)) as client:

        def ready() -> bool:
            look()
            providers = client.query(ProvidersRequest("", 1000, "")).providers
            certified = sum(p.capability is not None for p in providers)
            return certified >= len(expected) and all(map(_has_joined, expected))

        network.wait_until(ready, "providers to be certified and to join", seconds)


def _has_joined(spec: ProviderSpec) -> bool:
    report = status(Path(spec.home) / "provider")
    return report is not None and report["joined"]


def _wait_for_endpoints(network: Network, seconds: float) -> None:
    """Wait until the running validators have published their endpoints, which a bid requires."""
    running = {state.name for state in network.states() if state.running}
    wanted = {s.operator for s in network.layout.validators if f"{s.moniker}.validator" in running}
    with network.client(_up(network)) as client:

        def ready() -> bool:
            validators = client.query(ValidatorsRequest()).validators
            return wanted <= {v.operator for v in validators if v.endpoint}

        network.wait_until(ready, "validators to publish their endpoints", seconds)


def _up(network: Network) -> ValidatorSpec:
    running = {state.name for state in network.states() if state.running}
    return next(s for s in network.layout.validators if f"{s.moniker}.node" in running)
