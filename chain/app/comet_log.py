"""CometBFT's log: it is kept in files of bounded size, and important messages are translated for operators.

CometBFT writes into a pipe that this module reads. So log files can be rotated without a restart, and messages are seen
as soon as they come. While CometBFT runs, each problem that an operator must fix is logged once. When CometBFT ends,
:meth:`CometLog.why` returns the reason.
"""

import logging
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import Thread
from typing import Final

from chain.app.comet_files import SIGNS_TWICE
from domain.errors import printable
from host.daemon import bounded_file

log = logging.getLogger(__name__)

LINE_BYTES_MAX: Final = 64 * 1024
TEXT_MAX: Final = 300
"""Largest number of characters of a CometBFT message that is repeated."""
_END_SECONDS: Final = 5.0


class LogKind(StrEnum):
    """The effect on CometBFT of the problem that a message in its log reports."""

    RUNS = "runs"  # CometBFT continues, and an operator must know
    TWICE = "twice"  # CometBFT continues, but another node signs with its key.
    STUCK = "stuck"  # CometBFT continues without taking part in making blocks, so the node has to end
    ENDS = "ends"  # CometBFT ends, and a restart may help
    WAITS = "waits"  # CometBFT ends, because it waits for another program; restarts help when that is there
    LASTS = "lasts"  # CometBFT ends, and will do so after each restart


@dataclass(frozen=True, slots=True)
class CometTrouble:
    """A problem of CometBFT: the reason in the words of this software, and the remedy."""

    reason: str
    remedy: str = ""
    kind: LogKind = LogKind.ENDS

    def __str__(self) -> str:
        """Return the reason and the remedy in one line."""
        return self.reason + (f"; {self.remedy}" if self.remedy else "")


@dataclass(frozen=True, slots=True)
class Saying:
    """A known message of CometBFT (0.38), and its translation into a reason and a remedy.

    In both texts ``{home}`` stands for CometBFT's home, and every other name in braces for a group of the pattern
    ``words``.
    """

    words: "re.Pattern[str]"
    kind: LogKind
    reason: str
    remedy: str

    def read(self, line: str, home: Path) -> CometTrouble | None:
        """Return the problem that a line of the log reports; None if the line is not this message."""
        match = self.words.search(line)
        if match is None:
            return None
        values = {"home": home, **match.groupdict()}
        return CometTrouble(self.reason.format(**values), self.remedy.format(**values), self.kind)


_WHOLE_COPY = (
    "restore {home}/data completely from one backup, but keep its priv_validator_state.json: with an older one"
    f" {SIGNS_TWICE}"
)
SAYINGS: Final = tuple(
    Saying(words=re.compile(words), kind=kind, reason=reason, remedy=remedy)
    for words, kind, reason, remedy in (
        (
            r"listen \w+ (?P<address>\S+): bind: address already in use",
            LogKind.ENDS,
            "{address} is taken by another program",
            "end that program, or change the address of CometBFT in {home}/config/config.toml",
        ),
        (
            r"(?:address|peer)?\s*\((?P<peer>[^()]*)\) does not contain ID",
            LogKind.LASTS,
            "{peer} among the peers in {home}/config/config.toml is not ID@host:port",
            "correct it with `assay node init MONIKER --peers ID@host:port`; `assay node show` there shows its ID",
        ),
        (
            r"(?:address )?(?P<address>\S*): (?P<what>too many colons in address|missing port in address"
            r"|missing ']' in address)",
            LogKind.LASTS,
            "{address} in {home}/config/config.toml is not an address ({what})",
            "write host:port, with an IPv6 address in brackets, as in tcp://[::]:26656",
        ),
        (
            r"resource temporarily unavailable",
            LogKind.ENDS,
            "another process has the databases in {home}/data open",
            "end the CometBFT that runs with this home",
        ),
        (
            r"missing or corrupted|leveldb: manifest corrupted|leveldb/\S+: .*corrupt|checksum mismatch",
            LogKind.LASTS,
            "a database in {home}/data is damaged",
            _WHOLE_COPY,
        ),
        (
            r"AppHash does not match AppHash after replay|app block height \(\d+\) is",
            LogKind.LASTS,
            "CometBFT's blocks and the node's state differ in age, chain or version",
            "run the version that the chain runs, or " + _WHOLE_COPY,
        ),
        (
            r"Error reading PrivValidator (?P<what>\w+)",
            LogKind.LASTS,
            "the validator's {what} in {home} cannot be read",
            "restore priv_validator_key.json from a copy, and the newest priv_validator_state.json of this validator:"
            f" with an older one {SIGNS_TWICE}",
        ),
        (
            r"error with private validator socket client: can't get pubkey: (?P<what>.*)",
            LogKind.WAITS,
            "the remote signer does not answer ({what})",
            "start the signer, and let it connect to the address in node.remote_signer",
        ),
        (
            r"found signature from the same key",
            LogKind.LASTS,
            "double_sign_check_height in {home}/config/config.toml keeps CometBFT from starting, because the last"
            " blocks have votes of this validator, as after each restart",
            "set double_sign_check_height to 0: the node itself checks for votes that this home did not sign",
        ),
        (
            r"failed to load or gen node key",
            LogKind.LASTS,
            "{home}/config/node_key.json cannot be read",
            "restore it from a copy; without it CometBFT makes a new one, and the node gets a new ID for its peers",
        ),
        (
            r"(?P<what>While parsing config: .*|error decoding '.*|error in config file: .*)",
            LogKind.LASTS,
            "{home}/config/config.toml is wrong: {what}",
            "correct it, or restore it from a copy",
        ),
        (
            r"error in genesis doc: (?P<what>.*)|(?P<other>genesis doc hash .*)",
            LogKind.LASTS,
            "{home}/config/genesis.json is not the genesis file of this chain ({what}{other})",
            "get it from the chain's makers",
        ),
        (
            r"CONSENSUS FAILURE!!!.*no space left on device",
            LogKind.STUCK,
            "the disk under {home} is full",
            "free space on that disk, and start the node again",
        ),
        (
            r"CONSENSUS FAILURE!!!.*?(?P<what>read-only file system|input/output error)",
            LogKind.STUCK,
            "the disk under {home} cannot be written ({what})",
            "mend the disk, whose errors `dmesg` shows, and start the node again",
        ),
        (
            r"no space left on device",
            LogKind.ENDS,
            "the disk under {home} is full",
            "free space on that disk",
        ),
        (
            r"too many open files",
            LogKind.ENDS,
            "CometBFT may not open more files",
            "raise the limit (ulimit -n, or LimitNOFILE of a service) to 65536",
        ),
        (
            r"open (?P<path>\S+): permission denied",
            LogKind.LASTS,
            "CometBFT has no permission to open {path}",
            "make the user who runs the node the owner of the home (chown -R USER HOME)",
        ),
        (
            r"peer is on a different network\. Got (?P<theirs>[^\s,]+), expected (?P<ours>[^\s\"]+)",
            LogKind.RUNS,
            "a peer is on the chain {theirs}, but this node is on {ours}",
            "use the peer's {home}/config/genesis.json, or correct persistent_peers in {home}/config/config.toml",
        ),
        (
            r"peer is on a different Block version\. Got (?P<theirs>\w+), expected (?P<ours>\w+)",
            LogKind.RUNS,
            "a peer makes blocks of version {theirs}, but this node makes blocks of version {ours}",
            "run the version of Assay that the chain runs",
        ),
        (
            r"wrong Block\.Header\.(?P<what>AppHash|Version|LastResultsHash|ValidatorsHash|ConsensusHash)\b",
            LogKind.RUNS,
            "the chain's blocks do not match this node's state: their {what} differs from the node's",
            "use the genesis file of the chain's makers and the version of Assay that the chain runs, and start again"
            " with an empty store",
        ),
        (
            r"auth failure: conn\.ID \((?P<found>\w+)\) dialed ID \((?P<named>\w+)\) mismatch",
            LogKind.RUNS,
            "the node at the address of peer {named} has the ID {found}",
            "correct persistent_peers in {home}/config/config.toml",
        ),
        (
            # CometBFT asks 50 times, for minutes, before it gives up a signature and reports that.
            r"SignerListener: Error accepting connection",
            LogKind.RUNS,
            "no remote signer is connected, so this validator signs nothing",
            "start the signer, and let it connect to the address in node.remote_signer",
        ),
        (
            r"failed signing (?P<act>\w+).*err=\"?(?P<what>exhausted all attempts[^\"]*|signerEndpoint returned[^\"]*)",
            LogKind.RUNS,
            "the remote signer did not sign a {act} ({what})",
            "see whether it runs and reaches the address in node.remote_signer; its log says why it refused",
        ),
        (
            r"found conflicting vote from ourselves",
            LogKind.TWICE,
            "another CometBFT signs with this validator's key, or priv_validator_state.json is outdated",
            "stop one of the two at once: " + SIGNS_TWICE,
        ),
        (
            r"CONSENSUS FAILURE!!!.*?err=\"?(?P<what>[^\"]*)",
            LogKind.RUNS,
            "CometBFT no longer takes part in making blocks ({what})",
            "restart the node; if that does not help, restore {home}/data from a copy, or fetch the chain again",
        ),
    )
)
_PASSED_OVER = ("I[", "D[")  # lines that CometBFT logs as information
_LAST_WORDS = ("ERROR:", "panic:", "fatal error:", "Error")


class CometLog:
    """A reader of the output of one CometBFT process, until the process ends."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        path: Path,
        home: Path,
        on_trouble: Callable[[CometTrouble], None] = lambda trouble: None,
    ) -> None:
        """Start a thread that copies each line to the log file ``path``; the number of old files is bounded.

        ``on_trouble`` is called for problems that an operator must know while CometBFT continues.
        """
        self._on_trouble = on_trouble
        if process.stdout is None:
            raise ValueError("the process does not write into a pipe")
        self._pipe = process.stdout
        self._path = path
        self._home = home
        self._logged: set[str] = set()
        self._end_reason: CometTrouble | None = None
        self._last_words = ""
        self._thread = Thread(target=self._read, name="comet-log", daemon=True)
        self._thread.start()

    def why(self) -> CometTrouble:
        """Return the reason why the process ended, as found in its output.

        If the output contains no known message, return the last message unchanged.
        """
        self._thread.join(_END_SECONDS)
        if self._end_reason is not None:
            return self._end_reason
        return CometTrouble(self._last_words or "CometBFT logged no reason")

    def _read(self) -> None:
        lines = bounded_file(self._path)
        with self._pipe:
            while raw := self._pipe.readline(LINE_BYTES_MAX):
                line = raw.decode(errors="replace").rstrip()
                lines.handle(logging.makeLogRecord({"msg": line}))
                if not line.startswith(_PASSED_OVER):
                    self._translate(line)
        lines.close()

    def _translate(self, line: str) -> None:
        for saying in SAYINGS:
            trouble = saying.read(line, self._home)
            if trouble is None:
                continue
            if trouble.kind in (LogKind.ENDS, LogKind.WAITS, LogKind.LASTS):
                self._end_reason = self._end_reason or trouble
            elif trouble.reason not in self._logged and len(self._logged) < len(SAYINGS):
                self._logged.add(trouble.reason)
                log.error("%s", printable(str(trouble)))
                self._on_trouble(trouble)
            return
        if line.startswith(_LAST_WORDS):
            self._last_words = printable(line)[:TEXT_MAX]
