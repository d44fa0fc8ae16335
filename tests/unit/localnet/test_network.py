"""How a network measures its machine for all of its providers."""

from contextlib import closing
from pathlib import Path

import pytest

from compute_provider.store import Store
from compute_provider.work.bench import Speed, limits_here, limits_of
from localnet import network as module
from localnet.create import create
from localnet.layout import NetworkKind
from localnet.network import Network
from pol.executor.names import DEFAULT_ENGINE, Engine


def test_the_speed_is_measured_once_and_counts_for_each_provider(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if this process has fewer threads than the machine: a provider measures again if its limits differ."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    measured = Speed("native avx2", 3 * 10**9, 1 << 30, limits=limits_here())
    calls = []

    def measure(engine: Engine, seconds: float) -> Speed:
        calls.append(engine)
        return measured

    monkeypatch.setattr(module, "measure_speed", measure)
    layout = create(tmp_path, validators=1, providers=3, kind=NetworkKind.SOLO)
    network = Network(layout)
    for _ in range(2):
        network._measure_providers([spec.name for spec in layout.providers])
    assert calls == [DEFAULT_ENGINE]
    for spec in layout.providers:
        with closing(Store(Path(spec.home) / "provider")) as store:
            known = store.measured(DEFAULT_ENGINE)
        assert known is not None
        assert known.flops == 10**9
        assert limits_of(known.computing) == limits_here()
