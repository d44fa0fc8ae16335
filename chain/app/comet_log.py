"""CometBFT's log: kept in files of bounded size, and what matters in it told in our words.

CometBFT writes into a pipe that is read here, so that files turn over without a restart, and its words are seen as they
come: while it runs, what an operator has to mend is logged once; when it ends, the reason is known.
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
TOLD_MAX: Final = 300
"""Characters of CometBFT's own words that are repeated."""
_END_SECONDS: Final = 5.0


class LogKind(StrEnum):
    """What follows from something that CometBFT says."""

    RUNS = "runs"  # it goes on, and an operator has to know
    TWICE = "twice"  # it goes on, and another one signs with its key
    ENDS = "ends"  # it ends, and may do better when it is started again
    LASTS = "lasts"  # it ends, and does so each time


@dataclass(frozen=True, slots=True)
class CometTrouble:
    """Why CometBFT does not work, in our words, and what to do about it."""

    reason: str
    remedy: str = ""
    kind: LogKind = LogKind.ENDS

    def __str__(self) -> str:
        """Return both in one line."""
        return self.reason + (f"; {self.remedy}" if self.remedy else "")


@dataclass(frozen=True, slots=True)
class Saying:
    """Words of CometBFT (0.38) and ours for them: ``{home}`` is its home, other names are groups of the pattern."""

    words: "re.Pattern[str]"
    kind: LogKind
    reason: str
    remedy: str

    def read(self, line: str, home: Path) -> CometTrouble | None:
        """Return what a line means, None where it has other words."""
        found = self.words.search(line)
        if found is None:
            return None
        values = {"home": home, **found.groupdict()}
        return CometTrouble(self.reason.format(**values), self.remedy.format(**values), self.kind)


_WHOLE_COPY = (
    "restore {home}/data whole from a copy of one moment, but keep its priv_validator_state.json: with an older one"
    f" {SIGNS_TWICE}"
)
SAYINGS: Final = tuple(
    Saying(words=re.compile(words), kind=kind, reason=reason, remedy=remedy)
    for words, kind, reason, remedy in (
        (
            r"listen \w+ (?P<address>\S+): bind: address already in use",
            LogKind.ENDS,
            "{address} is taken by another program",
            "end that program, or have CometBFT listen elsewhere ({home}/config/config.toml)",
        ),
        (
            r"(?:address|peer)?\s*\((?P<peer>[^()]*)\) does not contain ID",
            LogKind.LASTS,
            "{peer} among the peers in {home}/config/config.toml is not ID@host:port",
            "correct it: `assay node init MONIKER --peers ID@host:port`, with what `assay node show` prints there",
        ),
        (
            r"(?:address )?(?P<address>\S*): (?P<what>too many colons in address|missing port in address"
            r"|missing ']' in address)",
            LogKind.LASTS,
            "{address} in {home}/config/config.toml is no address ({what})",
            "write host:port, an IPv6 address in brackets, as tcp://[::]:26656",
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
            "its blocks and the node's state are not of one moment, one chain and one version",
            "run the version that the chain runs, or " + _WHOLE_COPY,
        ),
        (
            r"Error reading PrivValidator (?P<what>\w+)",
            LogKind.LASTS,
            "the validator's {what} in {home} cannot be read",
            "restore priv_validator_key.json from a copy, and priv_validator_state.json only as this validator wrote it"
            f" last: with an older one {SIGNS_TWICE}",
        ),
        (
            r"found signature from the same key",
            LogKind.LASTS,
            "double_sign_check_height in {home}/config/config.toml finds votes of this validator in the last blocks, as"
            " after every restart",
            "set it to 0: the node itself looks for votes that this home did not sign",
        ),
        (
            r"failed to load or gen node key",
            LogKind.LASTS,
            "{home}/config/node_key.json cannot be read",
            "restore it from a copy; without it CometBFT makes another one, which is a new address for peers",
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
            "{home}/config/genesis.json is not the chain's ({what}{other})",
            "get it from the chain's makers",
        ),
        (
            r"no space left on device",
            LogKind.ENDS,
            "the disk under {home} is full",
            "make room there",
        ),
        (
            r"too many open files",
            LogKind.ENDS,
            "it may not open more files",
            "raise the limit (ulimit -n, or LimitNOFILE of a service) to 65536",
        ),
        (
            r"open (?P<path>\S+): permission denied",
            LogKind.LASTS,
            "{path} may not be opened",
            "give the home to the user who runs the node",
        ),
        (
            r"peer is on a different network\. Got (?P<theirs>[^\s,]+), expected (?P<ours>[^\s\"]+)",
            LogKind.RUNS,
            "a peer is on the chain {theirs}, and this node on {ours}",
            "compare {home}/config/genesis.json with theirs, or correct persistent_peers in {home}/config/config.toml",
        ),
        (
            r"peer is on a different Block version\. Got (?P<theirs>\w+), expected (?P<ours>\w+)",
            LogKind.RUNS,
            "a peer makes blocks of version {theirs}, and this node of version {ours}",
            "run the version of Assay that the chain runs",
        ),
        (
            r"wrong Block\.Header\.(?P<what>AppHash|Version|LastResultsHash|ValidatorsHash|ConsensusHash)\b",
            LogKind.RUNS,
            "the chain's blocks do not follow from what this node has (its {what} is another)",
            "use the genesis file of the chain's makers and the version of Assay that the chain runs, and begin anew"
            " with an empty store",
        ),
        (
            r"auth failure: conn\.ID \((?P<found>\w+)\) dialed ID \((?P<named>\w+)\) mismatch",
            LogKind.RUNS,
            "the node behind the address of peer {named} is {found}",
            "correct persistent_peers in {home}/config/config.toml",
        ),
        (
            r"found conflicting vote from ourselves",
            LogKind.TWICE,
            "another CometBFT signs with this validator's key, or its priv_validator_state.json is an old one",
            "end one of the two at once: " + SIGNS_TWICE,
        ),
        (
            r"CONSENSUS FAILURE!!!.*?err=\"?(?P<what>[^\"]*)",
            LogKind.RUNS,
            "CometBFT takes no more part in making blocks ({what})",
            "restart the node; where that does not help, restore {home}/data from a copy or fetch the chain anew",
        ),
    )
)
_PASSED_OVER = ("I[", "D[")  # what CometBFT logs as information
_LAST_WORDS = ("ERROR:", "panic:", "fatal error:", "Error")


class CometLog:
    """Reads what one process of CometBFT writes, until it ends."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        path: Path,
        home: Path,
        on_trouble: Callable[[CometTrouble], None] = lambda trouble: None,
    ) -> None:
        """Begin to read in a thread; every line goes to ``path``, of which old files are kept up to a bound.

        ``on_trouble`` hears of what an operator has to know while CometBFT goes on.
        """
        self._on_trouble = on_trouble
        if process.stdout is None:
            raise ValueError("the process does not write into a pipe")
        self._pipe, self._path, self._home = process.stdout, path, home
        self._told: set[str] = set()
        self._found: CometTrouble | None = None
        self._last_words = ""
        self._thread = Thread(target=self._read, name="comet-log", daemon=True)
        self._thread.start()

    def why(self) -> CometTrouble:
        """Return why a process that has ended did, by what it said; without words of ours for it, in its own."""
        self._thread.join(_END_SECONDS)
        if self._found is not None:
            return self._found
        return CometTrouble(self._last_words or "it said nothing")

    def _read(self) -> None:
        lines = bounded_file(self._path)
        with self._pipe:
            while raw := self._pipe.readline(LINE_BYTES_MAX):
                line = raw.decode(errors="replace").rstrip()
                lines.handle(logging.makeLogRecord({"msg": line}))
                if not line.startswith(_PASSED_OVER):
                    self._look_at(line)
        lines.close()

    def _look_at(self, line: str) -> None:
        for saying in SAYINGS:
            trouble = saying.read(line, self._home)
            if trouble is None:
                continue
            if trouble.kind not in (LogKind.RUNS, LogKind.TWICE):
                self._found = self._found or trouble
            elif trouble.reason not in self._told and len(self._told) < len(SAYINGS):
                self._told.add(trouble.reason)
                log.error("%s", printable(str(trouble)))
                self._on_trouble(trouble)
            return
        if line.startswith(_LAST_WORDS):
            self._last_words = printable(line)[:TOLD_MAX]
