"""The check that only one node signs with a consensus key: it compares this home's signatures with the chain's.

CometBFT keeps its last signature in ``priv_validator_state.json``, and signs nothing older. A copy of a home has an old
state, so the original and the copy both sign, without knowing of each other. Four checks find this problem:

- On one machine only one node at a time can use the key (``host.lock``).
- A block may contain a vote of this key for a later height, round and step than this home remembers. Another node then
  made that vote. A copy meets such a block while it fetches missed blocks, before it signs anything.
- If a validator has a third of the power or more, the chain cannot continue without it. CometBFT then does not fetch
  missed blocks first, so a copy at once signs for old heights; other nodes ignore these signatures. The copy receives
  the votes that its key made at these heights. CometBFT reports the votes for two blocks, and this module finds
  signatures of other blocks in their commits.
- The chain's evidence names a validator that voted twice.

If a check finds the problem on a node that has just started, this node ends, because a copy starts later than the
original. If the node has run for long, it continues, because only one of the two nodes should end. It then records the
problem in its home, where ``assay status`` reads it.

CometBFT's own ``double_sign_check_height`` does not help. It treats the votes that a validator made before a restart as
votes of another node. So an honest validator would have to wait until the chain has made that many blocks without it. A
chain without two thirds of the power would never continue.

If a chain has one validator and its home is copied to another machine, the two chains never exchange blocks. Neither
node can then find the problem.
"""

import base64
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

from chain.app.comet_files import HomeError
from host.files import write_whole
from host.lock import held, holder_of, secret_held, secret_holder

if TYPE_CHECKING:
    # A solo node does not need its HTTP client.
    from chain.app.comet_rpc import CometView

log = logging.getLogger(__name__)

PAGE: Final = "docs/operate/backup.md"
PURPOSE: Final = "consensus"
"""The purpose in the lock of the key."""
LOOK_SECONDS: Final = 5.0
"""Seconds between two comparisons with the chain's votes of this key."""
NEW_BLOCKS: Final = 100
"""A node that has computed fewer blocks than this since its start counts as just started."""
END_ONE: Final = (
    "stop one of the two nodes for good, this one if its home is a copy;"
    f" {PAGE} says how to move a validator, and how to continue from a copy"
)
_PRECOMMIT: Final = 3
_SIGNED_FLAGS: Final = (2, 3)
"""Flags of a signed vote in a commit: 2 for the block, 3 for no block; 1 marks an absent vote."""


@dataclass(frozen=True, slots=True, order=True)
class Signed:
    """The last signature of CometBFT: height, round, and step (2: prevote, 3: precommit)."""

    height: int
    round: int
    step: int
    signature: bytes = b""

    @property
    def position(self) -> tuple[int, int, int]:
        """The position of the signature in the order of all signatures."""
        return self.height, self.round, self.step


@dataclass(frozen=True, slots=True)
class SignedTwice:
    """A finding that another node signs with this home's key: its text, its height, and whether it ended this node.

    A node that was ended does not start again by itself, because it would sign some votes after each restart.
    """

    text: str
    height: int
    ended: bool = False


def read_signed(comet_home: Path) -> Signed | None:
    """Return the last signature of this home's CometBFT, or None if it cannot be read."""
    try:
        state = json.loads((comet_home / "data" / "priv_validator_state.json").read_bytes())
        return Signed(
            height=int(state["height"]),
            round=int(state["round"]),
            step=int(state["step"]),
            signature=base64.b64decode(state.get("signature") or ""),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_secret(comet_home: Path) -> bytes:
    """Return the secret of the consensus key; HomeError if it cannot be read."""
    path = comet_home / "config" / "priv_validator_key.json"
    try:
        return base64.b64decode(json.loads(path.read_bytes())["priv_key"]["value"])
    except (OSError, ValueError, KeyError, TypeError):
        raise HomeError(f"{path} cannot be read", f"restore it from a copy, see {PAGE}") from None


def in_use(pid: int) -> HomeError:
    """Return the HomeError for a key that the process ``pid`` of another node on this machine uses."""
    return HomeError(
        f"another node of this machine signs with this validator's key, as process {pid or '?'}",
        END_ONE,
    )


@contextmanager
def key_held(comet_home: Path) -> Iterator[None]:
    """Reserve the home and its consensus key on this machine while the block runs; HomeError if another node holds
    one of them.

    Nothing but this reservation reads the secret of the key, whose name no other program can then take.
    """
    secret = read_secret(comet_home)
    with home_held(comet_home), secret_held(secret, PURPOSE, in_use):
        yield


@contextmanager
def home_held(comet_home: Path) -> Iterator[None]:
    """Reserve a home while the block runs; HomeError if another node holds it."""
    with held(_lock_path(comet_home), in_use):
        yield


def foreign_user(comet_home: Path) -> int | None:
    """Return the id of a process on this machine that signs with the home's key, but is not the home's node; None if
    there is no such process.
    """
    try:
        user = secret_holder(read_secret(comet_home), PURPOSE)
    except HomeError:
        return None
    return None if user is None or user == holder_of(_lock_path(comet_home)) else user


def _lock_path(comet_home: Path) -> Path:
    return comet_home / "data" / "node.lock"


# --- record of the finding ------------------------------------------------------------------------


def trouble_path(comet_home: Path) -> Path:
    """Return the path of the file that records a finding.

    The next start of the node or the operator deletes the file.
    """
    return comet_home / "data" / "signed_twice.json"


def read_trouble(comet_home: Path) -> SignedTwice | None:
    """Return the finding since the start of the node, or None if there is none."""
    try:
        record = json.loads(trouble_path(comet_home).read_bytes())
        return SignedTwice(text=str(record["text"]), height=int(record["height"]), ended=bool(record["ended"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


class SigningCheck:
    """A check that compares the chain's votes by a consensus key with its home's signatures. Any thread may call."""

    def __init__(
        self,
        comet_home: Path,
        cons_key: bytes,
        end: Callable[[HomeError], None] = lambda error: None,
        *,
        is_remote: bool = False,
    ) -> None:
        """Delete an earlier finding; HomeError if that finding ended the node. ``end`` ends this node.

        If ``is_remote``, a remote signer remembers the last signature, and this home does not know it. Then only
        evidence and CometBFT's log show that another node signs.
        """
        self._is_remote = is_remote
        self._home = comet_home
        self._end = end
        path = trouble_path(comet_home)
        before = read_trouble(comet_home)
        if before is not None and before.ended:
            raise HomeError(before.text, f"{END_ONE}; then delete {path}, and this node starts again")
        self._blocks = 0
        self.address = sha256(cons_key).digest()[:20]
        self._known = Signed(0, 0, 0)
        self._sampled: Signed | None = None
        path.unlink(missing_ok=True)

    def check_block(self, request: Any) -> None:
        """Check the last commit in a FinalizeBlock; raise HomeError if it has a vote that this home did not sign."""
        self._blocks += 1
        for evidence in request.misbehavior:
            if evidence.validator.address == self.address:
                self._note(
                    f"block {request.height} has evidence of two votes of this validator for height {evidence.height}",
                    evidence.height,
                )
        if self._is_remote or not any(
            vote.validator.address == self.address and vote.block_id_flag in _SIGNED_FLAGS
            for vote in request.decided_last_commit.votes
        ):
            return
        position = (request.height - 1, request.decided_last_commit.round, _PRECOMMIT)
        if self._known.position < position:
            signed = read_signed(self._home)
            if signed is None:
                log.warning("this validator's last signature cannot be read now, so it was not compared with the chain")
                return
            self._known = signed
        if self._known.position < position:
            height = position[0]
            text = (
                f"another node signs with this validator's key: block {height} has a vote of it, but this home signed"
                f" last at height {self._known.height}"
            )
            self._note(text, height, ended=True)
            raise HomeError(text, END_ONE)

    def troubles(self) -> list[str]:
        """Return the text of the finding since the start in a list, which is empty if there is none."""
        trouble = read_trouble(self._home)
        return [trouble.text] if trouble else []

    def compare(self, view: "CometView") -> None:
        """Compare a vote of this home with the chain's vote at the same height and round."""
        if self._is_remote:
            return
        sampled = self._sampled
        if sampled is not None:
            vote = view.precommit(sampled.height, self.address)
            if vote is not None and vote[0] == sampled.round and vote[1] != sampled.signature:
                self.found(
                    f"the chain has a vote of this validator for height {sampled.height} that this node did not sign",
                    sampled.height,
                )
        signed = read_signed(self._home)
        is_vote = signed is not None and signed.step == _PRECOMMIT and bool(signed.signature)
        self._sampled = signed if is_vote else None

    def found(self, text: str, height: int = 0) -> None:
        """Record that another node signs with this key, and end this node if it has just started."""
        is_new = self._blocks < NEW_BLOCKS
        self._note(text, height, ended=is_new)
        if is_new:
            self._end(HomeError(text, END_ONE))

    def _note(self, text: str, height: int, *, ended: bool = False) -> None:
        """Log a finding, and write it to the file that ``assay status`` reads."""
        known = read_trouble(self._home)
        if known is not None and (known.text == text or known.ended) and not ended:
            return
        log.error("%s; %s", text, END_ONE)
        if known is None or ended:
            write_whole(trouble_path(self._home), json.dumps(asdict(SignedTwice(text, height, ended))))

    def watch(self, view: "CometView", stop: Event) -> None:
        """Compare votes and signatures periodically, in a thread, until ``stop`` is set."""

        def run() -> None:
            while not stop.wait(LOOK_SECONDS):
                try:
                    self.compare(view)
                except OSError as error:
                    log.warning("the chain's votes of this key could not be compared: %s", error)

        Thread(target=run, name="signing-watch", daemon=True).start()
