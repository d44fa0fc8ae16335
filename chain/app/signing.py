"""One consensus key, one node: what this home knows to have signed, beside what the chain has of its key.

CometBFT keeps in ``priv_validator_state.json`` what it signed last, and signs nothing below that. A copy of a home has
an old one, so both nodes sign, and neither knows. Four things find that:

- On one machine the key is in use by one node at a time (``host.lock``).
- A block that has a vote of this key for a height, round and step beyond what this home remembers was signed by another
  node. A copy meets such a block while it fetches what it has missed, before it signs anything.
- A validator with a third of the power or more goes to work at once, without fetching (CometBFT does not wait for a
  chain that cannot go on without it). It signs for old heights, which no other node listens to, and gets the votes that
  its key gave there: CometBFT reports votes for two blocks, and this file finds other signatures in commits.
- The chain's evidence names a validator that voted twice.

A node that has just begun ends, since a copy is what begins. One that has run for long goes on, because only one of the
two should end: it writes what it found into the home, where ``assay status`` reads it.

CometBFT's own ``double_sign_check_height`` is no help. It takes a validator's own votes of before a restart for those
of another node. So an honest validator would have to wait until the chain has made so many blocks without it, and a
chain that has no two thirds without it would never go on.

Two chains that never meet (one validator, copied to another machine) leave no trace for either to find.
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
    # Its HTTP client is not needed for solo.
    from chain.app.comet_rpc import CometView

log = logging.getLogger(__name__)

PAGE: Final = "docs/operate/backup.md"
PURPOSE: Final = "consensus"
"""What the key is in use for, as its lock has it."""
LOOK_SECONDS: Final = 5.0
"""Between two looks at what the chain has of this key."""
NEW_BLOCKS: Final = 100
"""A node that has computed fewer since its start has just begun."""
END_ONE: Final = (
    "end one of the two nodes for good, this one if its home is a copy;"
    f" {PAGE} says how a validator moves, and goes on from a copy"
)
_PRECOMMIT: Final = 3
_SIGNED_FLAGS: Final = (2, 3)
"""Of a vote in a commit: for the block, or for none; 1 is absent."""


@dataclass(frozen=True, slots=True, order=True)
class Signed:
    """What CometBFT signed last: height, round, and step (2: prevote, 3: precommit)."""

    height: int
    round: int
    step: int
    signature: bytes = b""

    @property
    def place(self) -> tuple[int, int, int]:
        """Return where it stands among all that may be signed."""
        return self.height, self.round, self.step


@dataclass(frozen=True, slots=True)
class SignedTwice:
    """That another node signs with the key of this home: how that was seen, at which height, and if it ended this one.

    One that was ended does not start again by itself: whatever restarts it would have it sign a little each time.
    """

    text: str
    height: int
    ended: bool = False


def read_signed(comet_home: Path) -> Signed | None:
    """Return what CometBFT of this home signed last, None where that cannot be read."""
    try:
        found = json.loads((comet_home / "data" / "priv_validator_state.json").read_bytes())
        return Signed(
            height=int(found["height"]),
            round=int(found["round"]),
            step=int(found["step"]),
            signature=base64.b64decode(found.get("signature") or ""),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_secret(comet_home: Path) -> bytes:
    """Return the secret of the consensus key; HomeError where it cannot be read."""
    path = comet_home / "config" / "priv_validator_key.json"
    try:
        return base64.b64decode(json.loads(path.read_bytes())["priv_key"]["value"])
    except (OSError, ValueError, KeyError, TypeError):
        raise HomeError(f"{path} cannot be read", f"restore it from a copy, see {PAGE}") from None


def in_use(pid: int) -> HomeError:
    """Return what a node is told whose key another node of this machine uses."""
    return HomeError(
        f"another node of this machine signs with this validator's key, as process {pid or '?'}",
        END_ONE,
    )


@contextmanager
def key_held(comet_home: Path) -> Iterator[None]:
    """Be the one node of this machine that signs with the home's consensus key; HomeError where another one does."""
    secret = read_secret(comet_home)
    with held(_lock_path(comet_home), in_use), secret_held(secret, PURPOSE, in_use):
        yield


def foreign_user(comet_home: Path) -> int | None:
    """Return the process of this machine that signs with the home's key and is not its node; None where none does."""
    try:
        user = secret_holder(read_secret(comet_home), PURPOSE)
    except HomeError:
        return None
    return None if user is None or user == holder_of(_lock_path(comet_home)) else user


def _lock_path(comet_home: Path) -> Path:
    return comet_home / "data" / "node.lock"


# --- what was found is kept, for who looks later ----------------------------------------------------


def trouble_path(comet_home: Path) -> Path:
    """Return the file that says that another node signs with this key, until the next start or, by hand, for good."""
    return comet_home / "data" / "signed_twice.json"


def read_trouble(comet_home: Path) -> SignedTwice | None:
    """Return what was found since the node's start."""
    try:
        found = json.loads(trouble_path(comet_home).read_bytes())
        return SignedTwice(text=str(found["text"]), height=int(found["height"]), ended=bool(found["ended"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


class SigningCheck:
    """Compares what the chain has of a consensus key with what its home has signed. Any thread may call."""

    def __init__(
        self,
        comet_home: Path,
        cons_key: bytes,
        end: Callable[[HomeError], None] = lambda error: None,
    ) -> None:
        """Forget what was found before this start; HomeError where that ended the node. ``end`` ends this one."""
        self._home, self._end = comet_home, end
        path, before = trouble_path(comet_home), read_trouble(comet_home)
        if before is not None and before.ended:
            raise HomeError(before.text, f"{END_ONE}; then delete {path}, and this node starts again")
        self._blocks = 0
        self.address = sha256(cons_key).digest()[:20]
        self._known = Signed(0, 0, 0)
        self._sampled: Signed | None = None
        path.unlink(missing_ok=True)

    def check_block(self, request: Any) -> None:
        """Look at an ABCI FinalizeBlock; HomeError where its last commit has a vote that this home did not sign."""
        self._blocks += 1
        for found in request.misbehavior:
            if found.validator.address == self.address:
                self._note(
                    f"block {request.height} has evidence of two votes of this validator for height {found.height}",
                    found.height,
                )
        if not any(
            vote.validator.address == self.address and vote.block_id_flag in _SIGNED_FLAGS
            for vote in request.decided_last_commit.votes
        ):
            return
        place = (request.height - 1, request.decided_last_commit.round, _PRECOMMIT)
        if self._known.place < place:
            signed = read_signed(self._home)
            if signed is None:
                log.warning("what this validator signed last cannot be read now, and was not compared")
                return
            self._known = signed
        if self._known.place < place:
            height = place[0]
            text = (
                f"another node signs with this validator's key: block {height} has a vote of it, and this home signed"
                f" last at height {self._known.height}"
            )
            self._note(text, height, ended=True)
            raise HomeError(text, END_ONE)

    def troubles(self) -> list[str]:
        """Return what was found since the start, in words."""
        found = read_trouble(self._home)
        return [found.text] if found else []

    def look(self, view: "CometView") -> None:
        """Compare a vote of this home with the one that the chain has in its place."""
        sampled = self._sampled
        if sampled is not None:
            found = view.precommit(sampled.height, self.address)
            if found is not None and found[0] == sampled.round and found[1] != sampled.signature:
                self.found(
                    f"the chain has a vote of this validator for height {sampled.height} that this node did not sign",
                    sampled.height,
                )
        signed = read_signed(self._home)
        is_vote = signed is not None and signed.step == _PRECOMMIT and bool(signed.signature)
        self._sampled = signed if is_vote else None

    def found(self, text: str, height: int = 0) -> None:
        """Take note that another node signs now, and end this one if it has just begun."""
        is_new = self._blocks < NEW_BLOCKS
        self._note(text, height, ended=is_new)
        if is_new:
            self._end(HomeError(text, END_ONE))

    def _note(self, text: str, height: int, *, ended: bool = False) -> None:
        """Log it, and keep it where ``assay status`` finds it."""
        known, found = read_trouble(self._home), SignedTwice(text, height, ended)
        if known is not None and (known.text == text or known.ended) and not ended:
            return
        log.error("%s; %s", text, END_ONE)
        if known is None or ended:
            write_whole(trouble_path(self._home), json.dumps(asdict(found)))

    def watch(self, view: "CometView", stop: Event) -> None:
        """Look again and again, in a thread, until ``stop``."""

        def run() -> None:
            while not stop.wait(LOOK_SECONDS):
                try:
                    self.look(view)
                except OSError as error:
                    log.warning("the chain's votes of this key were not compared: %s", error)

        Thread(target=run, name="signing-watch", daemon=True).start()
