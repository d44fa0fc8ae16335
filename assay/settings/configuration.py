"""``config.toml`` of a home: the one table of its keys, and where the value of each comes from.

The file is checked whenever it is read. An option wins over a variable of the environment, that over the file, and the
file over the default.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any

from assay.settings.errors import SettingsError
from assay.settings.kinds import (
    KEYRING,
    LOG_FORMAT,
    LOG_LEVEL,
    PORT,
    PORT_OR_NONE,
    Choice,
    Endpoint,
    Host,
    Kind,
    Text,
    Whole,
)
from validator.decide.admission import Policy

FILE = "config.toml"
_CLOSE = 0.5


class Source(StrEnum):
    """Where a value comes from."""

    OPTION = "option"
    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of ``config.toml``; ``name`` has the table in front of a dot.

    ``default`` None: there is none. ``option`` is one of all commands, or of those in ``commands``.
    """

    name: str
    kind: Kind
    default: str | int | None
    meaning: str
    option: str = ""
    commands: str = ""
    variable: str = ""

    @property
    def is_number(self) -> bool:
        """Whether the file has a number there, not a text."""
        return isinstance(self.kind, Whole)

    def read(self, value: object, where: str) -> str | int:
        """Return a value of this setting; a SettingsError names the place ``where`` it stands."""
        found: str | int
        if (self.is_number and type(value) is int) or (not self.is_number and type(value) is str):
            found = value
        else:
            wanted = "a whole number" if self.is_number else "a text in quotes"
            raise SettingsError(f"{value!r} is not {wanted}", self.meaning, field=where)
        try:
            self.kind.check(found)
        except ValueError as error:
            raise SettingsError(str(error), self.meaning, field=where) from None
        return found


SETTINGS = (
    Setting(
        "node_address",
        Endpoint(),
        "127.0.0.1:9090",
        "The gRPC address of the node that commands and daemons of this home ask.",
        "--node",
        variable="ASSAY_NODE",
    ),
    Setting(
        "keyring",
        KEYRING,
        "file",
        "Keys that are encrypted (file), or in the clear for local networks (test).",
        "--keyring",
    ),
    Setting("from", Text(), None, "The key that signs; not needed for one alone.", "--from"),
    Setting(
        "log.level",
        LOG_LEVEL,
        "info",
        "The least level that a node's or daemon's log has.",
        "--log-level",
        "node start, validator run, provider join",
    ),
    Setting(
        "log.format",
        LOG_FORMAT,
        "text",
        "Lines for people, or one JSON object on each line.",
        "--log-format",
        "node start, validator run, provider join",
    ),
    Setting("node.moniker", Text(), None, "The name that the node goes by."),
    Setting("node.grpc_host", Host(), "127.0.0.1", "Address on which the node answers clients."),
    Setting("node.grpc_port", PORT, 9090, "Port on which the node answers clients."),
    Setting(
        "node.rpc_port",
        PORT,
        26657,
        "Port of CometBFT's RPC on 127.0.0.1; `node start` writes it into node/config/config.toml.",
    ),
    Setting(
        "node.min_gas_price_millionths",
        Whole(0),
        0,
        "The node's own floor for what it takes into its mempool: uassay per million of gas, beside the chain's.",
    ),
    Setting(
        "node.metrics_port",
        PORT_OR_NONE,
        0,
        "Port on 127.0.0.1 for metrics and health of the node; 0: none.",
        "--metrics-port",
        "node start",
    ),
    Setting(
        "node.comet_metrics_port",
        PORT_OR_NONE,
        0,
        "Port on 127.0.0.1 for CometBFT's own metrics; 0: none.",
        "--comet-metrics-port",
        "node start",
    ),
    Setting(
        "validator.listen",
        Endpoint(),
        "127.0.0.1:9191",
        "Where a validator's daemon serves its cluster and consumers.",
        "--listen",
        "validator run",
    ),
    Setting(
        "validator.endpoint",
        Endpoint(),
        None,
        "Where others reach it; goes on chain. By default where it listens.",
        "--endpoint",
        "validator run",
    ),
    Setting(
        "validator.admit",
        Choice(tuple(policy.value for policy in Policy)),
        "open",
        "Which providers join when they pass a probe: whoever asks, who was named, nobody.",
        "--admit",
        "validator run",
    ),
    Setting(
        "validator.metrics_port",
        PORT_OR_NONE,
        0,
        "Port on 127.0.0.1 for metrics and health of the validator's daemon; 0: none.",
        "--metrics-port",
        "validator run",
    ),
    Setting(
        "provider.metrics_port",
        PORT_OR_NONE,
        0,
        "Port on 127.0.0.1 for metrics and health of the provider's daemon; 0: none.",
        "--metrics-port",
        "provider join",
    ),
)
BY_NAME: Mapping[str, Setting] = {setting.name: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a setting, and where it comes from; None where nothing gives one."""

    setting: Setting
    value: str | int | None
    source: Source


class Configuration:
    """The settings of a home."""

    def __init__(self, home: Path) -> None:
        """Read the home's file, where there is one; SettingsError names the key that is wrong in it."""
        path = home / FILE
        self._file = dict(_read(path))

    def get(self, name: str, option: str | int | None = None) -> Value:
        """Return the value of a setting; ``option`` is what stands on the command line."""
        setting = BY_NAME[name]
        if option is not None:
            return Value(setting, option, Source.OPTION)
        said = os.environ.get(setting.variable) if setting.variable else None
        if said:
            return Value(setting, setting.read(said, setting.variable), Source.ENVIRONMENT)
        if name in self._file:
            return Value(setting, self._file[name], Source.FILE)
        return Value(setting, setting.default, Source.DEFAULT)


def _read(path: Path) -> Iterator[tuple[str, str | int]]:
    try:
        tables = tomllib.loads(path.read_text()) if path.exists() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"not TOML ({error})", "correct the file", field=str(path)) from None
    for name, value in _flat(tables):
        setting = BY_NAME.get(name)
        if setting is None:
            raise SettingsError(f"there is no key {name}", _nearest(name), field=str(path))
        yield name, setting.read(value, f"{path}, {name}")


def _flat(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _nearest(name: str) -> str:
    """Return the key that was meant, most likely: as it is written, or under its last part in another table."""
    close = get_close_matches(name, BY_NAME, 1, _CLOSE)
    last = name.rpartition(".")[2]
    same = [known for known in BY_NAME if known.rpartition(".")[2] == last]
    found = same if len(same) == 1 else close
    return f"is it {found[0]}?" if found else "assay config show lists all keys"
