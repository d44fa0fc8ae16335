"""What a local network's genesis file says."""

from pathlib import Path

import pytest

from chain.app.comet_files import read_genesis
from chain.app.homes import genesis_path
from domain.proof.params import ProofParams
from localnet.create import create


@pytest.mark.parametrize(("validators", "auditors"), [(1, 0), (2, 1), (4, 2)])
def test_nobody_has_to_audit_himself(tmp_path: Path, validators: int, auditors: int) -> None:
    """Else no order could ever be given to a network of one."""
    layout = create(tmp_path, validators, providers=0)
    genesis, *_ = read_genesis(genesis_path(Path(layout.validators[0].home)))
    assert genesis.params.of(ProofParams).auditors == auditors
