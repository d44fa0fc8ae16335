"""The nodes of a demo's cluster: what they need, and what is read of them. Real nodes are in tests/e2e."""

import stat
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from localnet import machines
from localnet.create import create
from localnet.layout import NetworkError, NetworkKind
from localnet.machines import Machines, MachineUse, uses_of
from pol.work.cluster.client import TOKEN_PATH
from pol.work.cluster.dispatch import NodeReport
from pol.work.cluster.seen import write_nodes
from tests.unit.assay.support import assay

NODE = NodeReport("aaaa1111", "127.0.0.1", 1, 1 << 30, "", (), (("train_segment", 3),))


def test_without_ray_the_demo_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "find_spec", lambda name: None)
    with pytest.raises(NetworkError, match="the package ray is not installed") as error:
        Machines(tmp_path, 2)
    assert "assay[ray]" in str(error.value.remedy)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("ray://10.0.0.1:6379", "--machines", "2"), 2, "a cluster that runs has its nodes"),
        (("rays",), 2, "ray for a cluster that the demo starts"),
        (("ray://10.0.0.1:6379",), 1, "needs a token"),
    ],
)
def test_a_cluster_that_the_demo_cannot_use_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], code: int, words: str
) -> None:
    monkeypatch.delenv(TOKEN_PATH, raising=False)
    done = assay("demo", "--dir", str(tmp_path / "demo"), "--executor", *options)
    assert (done.code, words in done.err) == (code, True), done.err
    assert not (tmp_path / "demo" / "network.json").exists()


def test_the_token_is_its_owners(tmp_path: Path) -> None:
    made = Machines(tmp_path, 2)
    token = tmp_path / "ray-token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert len(token.read_text()) == 64
    assert made.environment["RAY_AUTH_TOKEN_PATH"] == str(token)
    made.stop()
    assert not made._folder.exists()


def test_what_ended_where_is_read_of_all_daemons(tmp_path: Path) -> None:
    layout = create(tmp_path, 2, 1, kind=NetworkKind.SOLO, executor="ray://127.0.0.1:7", machines=2)
    for home in (*(each.home for each in layout.validators), *(each.home for each in layout.providers)):
        config = tomllib.loads((Path(home) / "config.toml").read_text())
        table = config.get("validator") or config["provider"]
        assert (table["executor"], table["machines"]) == ("ray://127.0.0.1:7", "2")
    assert uses_of(layout) == ()
    for folder, nodes in (
        (Path(layout.validators[0].home) / "validator", (replace(NODE, ended=()),)),
        (Path(layout.providers[0].home) / "provider", (NODE, replace(NODE, name="bbbb2222"))),
    ):
        folder.mkdir(exist_ok=True)
        write_nodes(folder, nodes)
    assert uses_of(layout) == tuple(
        MachineUse(name, "127.0.0.1", 1, {"prov0": {"train_segment": 3}}) for name in ("aaaa1111", "bbbb2222")
    )
