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
    Endpoint,
    Host,
    Kind,
    Text,
    Whole,
    WordChoice,
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
        name="node_address",
        kind=Endpoint(),
        default="127.0.0.1:9090",
        meaning="The gRPC address of the node that commands and daemons of this home ask.",
        option="--node",
        variable="ASSAY_NODE",
    ),
    Setting(
        name="keyring",
        kind=KEYRING,
        default="file",
        meaning="Keys that are encrypted (file), or in the clear for local networks (test).",
        option="--keyring",
    ),
    Setting(
        name="from",
        kind=Text(),
        default=None,
        meaning="The key that signs; not needed for one alone.",
        option="--from",
    ),
    Setting(
        name="log.level",
        kind=LOG_LEVEL,
        default="info",
        meaning="The least level that a node's or daemon's log has.",
        option="--log-level",
        commands="node start, validator run, provider join",
    ),
    Setting(
        name="log.format",
        kind=LOG_FORMAT,
        default="text",
        meaning="Lines for people, or one JSON object on each line.",
        option="--log-format",
        commands="node start, validator run, provider join",
    ),
    Setting(name="node.moniker", kind=Text(), default=None, meaning="The name that the node goes by."),
    Setting(
        name="node.grpc_host",
        kind=Host(),
        default="127.0.0.1",
        meaning="Address on which the node answers clients.",
    ),
    Setting(
        name="node.grpc_port",
        kind=PORT,
        default=9090,
        meaning="Port on which the node answers clients.",
    ),
    Setting(
        name="node.rpc_port",
        kind=PORT,
        default=26657,
        meaning="Port of CometBFT's RPC on 127.0.0.1; `node start` writes it into node/config/config.toml.",
    ),
    Setting(
        name="node.min_gas_price_millionths",
        kind=Whole(0),
        default=0,
        meaning="The node's own floor for what it takes into its mempool: uassay per million "
        "of gas, beside the chain's.",
    ),
    Setting(
        name="node.metrics_port",
        kind=PORT_OR_NONE,
        default=0,
        meaning="Port on 127.0.0.1 for metrics and health of the node; 0: none.",
        option="--metrics-port",
        commands="node start",
    ),
    Setting(
        name="node.comet_metrics_port",
        kind=PORT_OR_NONE,
        default=0,
        meaning="Port on 127.0.0.1 for CometBFT's own metrics; 0: none.",
        option="--comet-metrics-port",
        commands="node start",
    ),
    Setting(
        name="validator.listen",
        kind=Endpoint(),
        default="127.0.0.1:9191",
        meaning="Where a validator's daemon serves its cluster and consumers.",
        option="--listen",
        commands="validator run",
    ),
    Setting(
        name="validator.endpoint",
        kind=Endpoint(),
        default=None,
        meaning="Where others reach it; goes on chain. By default where it listens.",
        option="--endpoint",
        commands="validator run",
    ),
    Setting(
        name="validator.admit",
        kind=WordChoice(tuple(policy.value for policy in Policy)),
        default="open",
        meaning="Which providers join when they pass a probe: whoever asks, who was named, nobody.",
        option="--admit",
        commands="validator run",
    ),
    Setting(
        name="validator.metrics_port",
        kind=PORT_OR_NONE,
        default=0,
        meaning="Port on 127.0.0.1 for metrics and health of the validator's daemon; 0: none.",
        option="--metrics-port",
        commands="validator run",
    ),
    Setting(
        name="provider.metrics_port",
        kind=PORT_OR_NONE,
        default=0,
        meaning="Port on 127.0.0.1 for metrics and health of the provider's daemon; 0: none.",
        option="--metrics-port",
        commands="provider join",
    ),
)
BY_NAME: Mapping[str, Setting] = {setting.name: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class SettingValue:
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

    def get(self, name: str, option: str | int | None = None) -> SettingValue:
        """Return the value of a setting; ``option`` is what stands on the command line."""
        setting = BY_NAME[name]
        if option is not None:
            return SettingValue(setting, option, Source.OPTION)
        said = os.environ.get(setting.variable) if setting.variable else None
        if said:
            return SettingValue(setting, setting.read(said, setting.variable), Source.ENVIRONMENT)
        if name in self._file:
            return SettingValue(setting, self._file[name], Source.FILE)
        return SettingValue(setting, setting.default, Source.DEFAULT)


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
