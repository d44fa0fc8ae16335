"""What a local network says of itself, and what it says where it cannot."""

from pathlib import Path

import pytest

from localnet.create import create
from localnet.layout import FILE, NetworkError, NetworkKind, load_layout
from localnet.network import Network
from tests.unit.assay.support import assay


def test_a_network_is_read_as_it_was_made(tmp_path: Path) -> None:
    made = create(tmp_path, validators=2, providers=[0, 1], kind=NetworkKind.SOLO)
    assert load_layout(tmp_path) == made
    assert made.validator("val1").moniker == "val1"
    assert made.provider("prov0").validator == "val1"
    with pytest.raises(NetworkError, match=r"^there is no validator val2; choose one of val0, val1$"):
        made.validator("val2")
    with pytest.raises(NetworkError, match=r"^there is no provider val0; choose one of prov0$"):
        made.provider("val0")
    with pytest.raises(NetworkError, match=r"^no process val9\.node was started; choose one of val0\."):
        Network(made).kill("val9.node")


def test_where_there_is_none(tmp_path: Path) -> None:
    told = assay("localnet", "status", "--dir", tmp_path).refusal
    assert told == f"there is no network in {tmp_path}; start one with assay localnet start"
    (tmp_path / FILE).write_text('{"directory": "x"}')
    with pytest.raises(NetworkError, match="create the network again"):
        load_layout(tmp_path)
