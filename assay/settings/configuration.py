"""``config.toml`` of a home: the table of its keys, and the source of each value.

The file is checked whenever it is read. If a setting has several sources, an option comes first, then an environment
variable, then the file, then the default.
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
    AddressList,
    ConsensusKey,
    Endpoint,
    ExecutorName,
    GroupShape,
    Host,
    Kind,
    SignerAddress,
    Text,
    Whole,
    WordChoice,
)
from domain.amount import BPS, MONEY_MAX
from domain.limits import MIRRORS_MAX, SHARE_BOND_MAX
from validator.decide.admission import NEWCOMER_ROUNDS, NEWCOMER_ROUNDS_MAX, Policy

FILE = "config.toml"
_CLOSE = 0.5
MIRROR_FOR_MAX = 16


class Source(StrEnum):
    """The source of a setting's value."""

    OPTION = "option"
    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of ``config.toml``, named ``table.key`` or ``key``.

    A ``default`` of None means no default. The command-line option ``option`` or the environment variable ``variable``
    sets the value; an empty text means that there is no such option or variable. ``commands`` names the commands that
    accept the option; if it is empty, all commands accept the option.
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
        """True if the value in the file must be a whole number, not a text."""
        return isinstance(self.kind, Whole)

    def read(self, value: object, where: str) -> str | int:
        """Check a value of the setting, and return it.

        Raise SettingsError if the value is wrong. The error names ``where``, the source of the value.
        """
        checked: str | int
        if (self.is_number and type(value) is int) or (not self.is_number and type(value) is str):
            checked = value
        else:
            wanted = "a whole number" if self.is_number else "a text in quotes"
            raise SettingsError(f"{value!r} is not {wanted}", self.meaning, field=where)
        try:
            self.kind.check(checked)
        except ValueError as error:
            raise SettingsError(str(error), self.meaning, field=where) from None
        return checked


SETTINGS = (
    Setting(
        name="node_address",
        kind=Endpoint(),
        default="127.0.0.1:9090",
        meaning="gRPC address of the node that commands and daemons of this home ask.",
        option="--node",
        variable="ASSAY_NODE",
    ),
    Setting(
        name="keyring",
        kind=KEYRING,
        default="file",
        meaning="Encrypted keys (file), or unencrypted keys for local networks (test).",
        option="--keyring",
    ),
    Setting(
        name="from",
        kind=Text(),
        default=None,
        meaning="Name of the key that signs; not needed if the home has only one key.",
        option="--from",
    ),
    Setting(
        name="log.level",
        kind=LOG_LEVEL,
        default="info",
        meaning="Lowest level that nodes and daemons log.",
        option="--log-level",
        commands="node start, validator run, provider join",
    ),
    Setting(
        name="log.format",
        kind=LOG_FORMAT,
        default="text",
        meaning="Plain log lines (text), or one JSON object per line (json).",
        option="--log-format",
        commands="node start, validator run, provider join",
    ),
    Setting(name="node.moniker", kind=Text(), default=None, meaning="The node's name."),
    Setting(
        name="node.grpc_host",
        kind=Host(),
        default="127.0.0.1",
        meaning="Address on which the node listens for clients.",
    ),
    Setting(
        name="node.grpc_port",
        kind=PORT,
        default=9090,
        meaning="Port on which the node listens for clients.",
    ),
    Setting(
        name="node.rest_host",
        kind=Host(),
        default="127.0.0.1",
        meaning="Address on which the node's REST gateway listens.",
    ),
    Setting(
        name="node.rest_port",
        kind=PORT_OR_NONE,
        default=0,
        meaning="Port of the REST gateway for wallets and explorers (usually 1317); 0: no gateway.",
        option="--rest-port",
        commands="node start",
    ),
    Setting(
        name="node.rest_origins",
        kind=Text(),
        default="*",
        meaning="Origins of the web pages that may use the REST gateway, separated by commas; *: all; none: no page.",
    ),
    Setting(
        name="node.rpc_port",
        kind=PORT,
        default=26657,
        meaning="Port of CometBFT's RPC on 127.0.0.1; `node start` writes it into node/config/config.toml.",
    ),
    Setting(
        name="node.remote_signer",
        kind=SignerAddress(),
        default=None,
        meaning="Address at which CometBFT waits for the remote signer that has the consensus key; none: the home has"
        " it.",
        option="--remote-signer",
        commands="node init",
    ),
    Setting(
        name="node.consensus_key",
        kind=ConsensusKey(),
        default=None,
        meaning="Public key of the remote signer, in hex.",
        option="--consensus-key",
        commands="node init",
    ),
    Setting(
        name="node.min_gas_price_millionths",
        kind=Whole(0),
        default=0,
        meaning="Lowest gas price that the node accepts into its mempool, in uassay per million gas; the "
        "chain's own gas price applies, too. Duties are exempt.",
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
        meaning="Address on which a validator's daemon listens for its cluster and for consumers.",
        option="--listen",
        commands="validator run",
    ),
    Setting(
        name="validator.endpoint",
        kind=Endpoint(),
        default=None,
        meaning="Address at which others reach the daemon; published on the chain. Default: validator.listen.",
        option="--endpoint",
        commands="validator run",
    ),
    Setting(
        name="validator.admit",
        kind=WordChoice(tuple(policy.value for policy in Policy)),
        default=Policy.INVITED.value,
        meaning="Which providers may join after passing a probe: those named with assay validator admit or given an "
        "invitation (invited), any (open), or none (closed).",
        option="--admit",
        commands="validator run",
    ),
    Setting(
        name="validator.executor",
        kind=ExecutorName(),
        default="local",
        meaning="Where a validator recomputes: processes on this machine (local), or a Ray cluster.",
        option="--executor",
        commands="validator run",
        variable="ASSAY_EXECUTOR",
    ),
    Setting(
        name="validator.machines",
        kind=GroupShape(),
        default="1",
        meaning="Machines that replay a segment together: nodes of the cluster, or processes on this machine;"
        " STAGESxROWS sets stages and machines per stage.",
        option="--machines",
        commands="validator run",
        variable="ASSAY_MACHINES",
    ),
    Setting(
        name="validator.share_bond",
        kind=Whole(1, SHARE_BOND_MAX),
        default=1,
        meaning="Bond of each share, as a multiple of its price, for providers that joined without an invitation and"
        " without assay validator admit.",
    ),
    Setting(
        name="validator.cover",
        kind=Whole(0, BPS),
        default=0,
        meaning="Part of the job bond, in basis points, that pays right shares of such providers if another provider's"
        " fault makes them void.",
    ),
    Setting(
        name="validator.newcomer_rounds",
        kind=Whole(1, NEWCOMER_ROUNDS_MAX),
        default=NEWCOMER_ROUNDS,
        meaning="Closed rounds that may wait for their panels while one of them has a share of a provider whose work"
        " was never verified. The chain's rounds_ahead limits them, too.",
        option="--newcomer-rounds",
        commands="validator run",
    ),
    Setting(
        name="validator.mirrors",
        kind=AddressList(MIRRORS_MAX),
        default="",
        meaning="Validators that serve the data of this one's rounds to seats if it does not, separated by commas. Each"
        " must list this validator in its validator.mirror_for.",
    ),
    Setting(
        name="validator.mirror_for",
        kind=AddressList(MIRROR_FOR_MAX),
        default="",
        meaning="Validators whose rounds this one mirrors, separated by commas. It fetches the data of drawn places, up"
        " to a quarter of its store, and serves them to seats.",
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
        name="provider.executor",
        kind=ExecutorName(),
        default="local",
        meaning="Where a provider trains: a process on this machine (local), or a Ray cluster.",
        option="--executor",
        commands="provider join",
        variable="ASSAY_TRAINER",
    ),
    Setting(
        name="provider.machines",
        kind=GroupShape(),
        default="1",
        meaning="Machines that train a share together: nodes of the cluster, or processes on this machine; STAGESxROWS"
        " sets stages and machines per stage.",
        option="--machines",
        commands="provider join",
        variable="ASSAY_TRAINER_MACHINES",
    ),
    Setting(
        name="provider.least_income",
        kind=Whole(0, MONEY_MAX),
        default=0,
        meaning="Least income in uassay per PFLOP for which a provider trains; 0: any.",
        option="--least-income",
        commands="provider join",
    ),
    Setting(
        name="provider.max_exposure",
        kind=Whole(0, MONEY_MAX),
        default=0,
        meaning="Largest sum in uassay of the bonds of a provider's shares that are promised or committed and not paid;"
        " 0: any.",
        option="--max-exposure",
        commands="provider join",
    ),
    Setting(
        name="provider.take",
        kind=WordChoice(("covered", "any")),
        default="covered",
        meaning="Take only tasks that bonds and cover would pay if another provider's fault made them void (covered),"
        " or all tasks (any).",
        option="--take",
        commands="provider join",
    ),
    Setting(
        name="provider.earnings",
        kind=WordChoice(("account", "bond")),
        default="account",
        meaning="Where earnings stay: in the account, or as bond for further shares.",
        option="--earnings",
        commands="provider join",
    ),
    Setting(
        name="provider.metrics_port",
        kind=PORT_OR_NONE,
        default=0,
        meaning="Port on 127.0.0.1 for metrics and health of the provider's daemon; 0: none.",
        option="--metrics-port",
        commands="provider join",
    ),
    Setting(
        name="watchtower.metrics_port",
        kind=PORT_OR_NONE,
        default=0,
        meaning="Port on 127.0.0.1 for metrics and health of a watchtower; 0: none.",
        option="--metrics-port",
        commands="watchtower",
    ),
)
BY_NAME: Mapping[str, Setting] = {setting.name: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class SettingValue:
    """The value of a setting and its source; if no source and no default gives a value, it is None."""

    setting: Setting
    value: str | int | None
    source: Source


class Configuration:
    """The settings of a home."""

    def __init__(self, home: Path) -> None:
        """Read the home's ``config.toml``, if it exists; raise SettingsError, naming the key, if a value is wrong."""
        path = home / FILE
        self._file = dict(_read(path))

    def get(self, name: str, option: str | int | None = None) -> SettingValue:
        """Return a setting's value and source. ``option`` is the value on the command line; None if it is not there."""
        setting = BY_NAME[name]
        if option is not None:
            return SettingValue(setting, option, Source.OPTION)
        text = os.environ.get(setting.variable) if setting.variable else None
        if text:
            return SettingValue(setting, setting.read(text, setting.variable), Source.ENVIRONMENT)
        if name in self._file:
            return SettingValue(setting, self._file[name], Source.FILE)
        return SettingValue(setting, setting.default, Source.DEFAULT)


def _read(path: Path) -> Iterator[tuple[str, str | int]]:
    try:
        values = list(_flat(tomllib.loads(path.read_text()))) if path.exists() else []
    except (ValueError, RecursionError) as error:  # also bytes that are no text, and numbers with too many digits
        raise SettingsError(
            f"the file is not TOML ({error})", "correct this place in the file", field=str(path)
        ) from None
    for name, value in values:
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
    """Return a remedy for an unknown key.

    If exactly one key of another table has the same last part, the remedy suggests that key. Otherwise the remedy
    suggests a similar key, if the table has one.
    """
    close = get_close_matches(name, BY_NAME, 1, _CLOSE)
    last = name.rpartition(".")[2]
    same = [known for known in BY_NAME if known.rpartition(".")[2] == last]
    matches = same if len(same) == 1 else close
    return f"did you mean {matches[0]}?" if matches else "assay config show lists all keys"
