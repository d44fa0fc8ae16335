"""The grammar of ABCI: in which order CometBFT may call an application, and what its answers must keep.

From the chapter "CometBFT's expected behavior" of the specification of CometBFT 0.38, for an application without vote
extensions and state sync::

    start            = clean-start / recovery
    clean-start      = info init-chain consensus-exec
    recovery         = info [init-chain] consensus-exec
    consensus-exec   = (inf)consensus-height
    consensus-height = *consensus-round finalize-block commit
    consensus-round  = proposer / non-proposer
    proposer         = [prepare-proposal [process-proposal]]
    non-proposer     = [process-proposal]

Heights follow one another. A block that is executed again has the same app hash. A start goes on at the last commit.
In a process that runs already, an ``info`` is either that of a CometBFT that started again, or one that a client of
CometBFT asked for: the latter may come at any time.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from chain.app.abci_log import START


class Violation(AssertionError):
    """A call that the grammar does not allow, or an answer that breaks a promise."""


@dataclass
class Grammar:
    """Reads the lines of a log, in order. A log may end anywhere."""

    height: int = 0  # of the last commit
    app_hash: str = ""  # of the last commit
    called: str = ""  # the last call of the present process
    committing: int = 0  # height of a Commit of which the next Info shows whether it was done
    interrupted: str = ""  # the call before an Info that a client may have asked for
    executed: dict[int, str] = field(default_factory=dict)
    rejected: int = 0

    def read(self, lines: Iterable[str]) -> "Grammar":
        """Read lines; raise Violation at the first that breaks the grammar."""
        for number, line in enumerate(lines, 1):
            name, *values = line.split()
            try:
                getattr(self, f"_{name}", self._unknown)(*values)
            except Violation as violation:
                raise Violation(f"line {number}, {line!r} after {self.called or 'nothing'!r}: {violation}") from None
            if name == "finalized" or (name == "info" and self.called == "commit"):
                continue  # the Commit may still be at work
            if name != "info":
                self.interrupted = ""
            elif self.called != "info":
                self.interrupted = self.called
            self.called = name
        return self

    # Each method is for the lines of one kind.

    def _unknown(self, *_: str) -> None:
        raise Violation("this application does not use the call")

    def _start(self) -> None:
        if self.called == "commit":
            self.committing = self.height + 1
        self.called = START

    def _info(self, height: str, app_hash: str = "") -> None:
        found = int(height)
        if self.called == "commit" and found == self.height + 1:
            if app_hash != self.executed[found]:
                raise Violation(f"the last app hash is {self.executed[found]}")
            return
        if self.committing and found == self.committing:
            self.height, self.app_hash = found, self.executed[found]
        self.committing = 0
        if found != self.height:
            raise Violation(f"the last commit is at height {self.height}")
        if found and self.app_hash not in ("", app_hash):
            raise Violation(f"the last app hash is {self.app_hash}")
        self.app_hash = app_hash

    def _init_chain(self, *_: str) -> None:
        if self.called != "info" or self.height:
            raise Violation("InitChain comes after an Info at height 0")

    def _prepare_proposal(self, height: str) -> None:
        self._round(int(height), after=("process_proposal", "prepare_proposal"))

    def _process_proposal(self, height: str, answer: str) -> None:
        self._round(int(height), after=("process_proposal", "prepare_proposal"))
        self.rejected += answer == "rejected"

    def _finalize_block(self, height: str) -> None:
        # A block is executed once before its Commit, unless a process ends in between.
        self._round(int(height), after=("process_proposal", "prepare_proposal"))

    def _finalized(self, height: str, app_hash: str) -> None:
        at = int(height)
        if self.executed.get(at, app_hash) != app_hash:
            raise Violation(f"the block had the app hash {self.executed[at]} before")
        self.executed[at] = app_hash

    def _commit(self) -> None:
        before = self.interrupted or self.called
        if before != "finalize_block" or self.height + 1 not in self.executed:
            raise Violation("Commit comes after FinalizeBlock")

    def _round(self, height: int, after: tuple[str, ...]) -> None:
        if self.called == "commit":
            self._settle()
        if self.called not in ("info", "init_chain", *after):
            raise Violation("no call of a height may follow")
        if self.called == "info" and not self.height:
            raise Violation("there is no InitChain")
        if height != self.height + 1:
            raise Violation(f"the next height is {self.height + 1}")

    def _settle(self) -> None:
        """The Commit before this call was done."""
        self.height += 1
        self.app_hash = self.executed[self.height]
        self.called = "info"
