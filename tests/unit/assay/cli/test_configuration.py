"""``config.toml``: every key is in the table, what is wrong is named, and each value tells where it comes from."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from assay.settings.configuration import BY_NAME, SETTINGS
from tests.unit.assay.support import Ran, assay


def show(home: Path, *options: str, **variables: str) -> Ran:
    return assay("config", "show", "--output", "json", *options, home=home, **variables)


def write(home: Path, **tables: Any) -> None:
    (home / "config.toml").write_text(tomli_w.dumps(tables))


def test_every_value_tells_where_it_comes_from(tmp_path: Path) -> None:
    write(tmp_path, keyring="test", node_address="127.0.0.1:1", node={"grpc_port": 7})
    found = show(tmp_path, "--from", "op", ASSAY_NODE="127.0.0.1:2").json["settings"]
    assert found["keyring"] == {"value": "test", "source": "file"}
    assert found["node.grpc_port"] == {"value": 7, "source": "file"}
    assert found["node_address"] == {"value": "127.0.0.1:2", "source": "environment"}
    assert found["from"] == {"value": "op", "source": "option"}
    assert found["validator.listen"] == {"value": "127.0.0.1:9191", "source": "default"}
    option = show(tmp_path, "--node", "127.0.0.1:3", ASSAY_NODE="127.0.0.1:2").json["settings"]
    assert option["node_address"] == {"value": "127.0.0.1:3", "source": "option"}
    assert list(found) == [setting.name for setting in SETTINGS]


def test_people_see_it_too(tmp_path: Path) -> None:
    ran = assay("config", "show", home=tmp_path, ASSAY_NODE="127.0.0.1:2")
    assert "(does not exist)" in ran.out
    (line,) = [line for line in ran.out.splitlines() if "node_address" in line]
    assert "environment" in line
    assert "ASSAY_NODE" in line


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"keyrng": "test"}, "there is no key keyrng; did you mean keyring?"),
        (
            {"node": {"metric_port": 1}},
            "there is no key node.metric_port; did you mean node.metrics_port?",
        ),
        ({"grpc_port": 1}, "there is no key grpc_port; did you mean node.grpc_port?"),
        ({"colour": "blue"}, "there is no key colour; assay config show lists all keys"),
        ({"node": {"grpc_port": "7"}}, "node.grpc_port: '7' is not a whole number"),
        ({"node": {"grpc_port": True}}, "True is not a whole number"),
        ({"node": {"grpc_port": 70_000}}, "70000 is not in the range"),
        ({"keyring": 1}, "keyring: 1 is not a text in quotes"),
        ({"keyring": "vault"}, "'vault' is not one of 'file', 'test'"),
        ({"node_address": "here"}, "node_address: "),
        ({"validator": {"admit": "friends"}}, "validator.admit: "),
        ({"node": 7}, "there is no key node"),
    ],
)
def test_what_is_wrong_is_named_before_anything_starts(tmp_path: Path, tables: dict[str, Any], says: str) -> None:
    write(tmp_path, **tables)
    ran = assay("node", "start", home=tmp_path)
    assert says in ran.refusal
    assert str(tmp_path / "config.toml") in ran.refusal


def test_a_variable_that_is_wrong_is_named(tmp_path: Path) -> None:
    assert assay("config", "show", home=tmp_path, ASSAY_NODE="here").refusal.startswith("ASSAY_NODE: ")


def test_the_table_is_whole() -> None:
    """Each key once, with a meaning, and a default that it would take itself."""
    assert len(BY_NAME) == len(SETTINGS)
    for setting in SETTINGS:
        assert setting.meaning.endswith(".")
        if setting.default is not None:
            assert setting.read(setting.default, setting.name) == setting.default


def test_what_assay_writes_itself_is_in_the_table(tmp_path: Path) -> None:
    from localnet.create import create

    layout = create(tmp_path / "net", validators=1, providers=1)
    homes = [layout.consumer_home, layout.validators[0].home, layout.providers[0].home]
    for home in homes:
        assert show(Path(home)).code == 0
    file = tomllib.loads((Path(layout.validators[0].home) / "config.toml").read_text())
    assert {"node", "validator", "node_address"} <= file.keys()
