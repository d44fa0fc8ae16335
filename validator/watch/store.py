"""A watchtower's records on disk: the challenges that it found reasons for, and their outcomes.

A record is written before the challenge is sent. So a watchtower that was killed between commitment and opening opens
the challenge after its restart, and loses nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from domain import codec
from domain.disputes.records import DisputeState
from domain.errors import Expected
from domain.keys import RoundKey
from domain.proof.records import AuditPlace, Finding
from host import lock
from host.records import Records, RecordTable, Unusable

FORM = 1
"""Version of the records' format; it rises with every change after which older records cannot be read."""
LIVE = (int(DisputeState.COMMITTED), int(DisputeState.OPEN))
"""States of challenges whose bond is locked."""


class WatchtowerError(Expected):
    """The error that a watchtower's home cannot be used."""


@dataclass(frozen=True, slots=True)
class OwnChallenge:
    """A place that a watchtower found wrong, and the challenge of it.

    ``number`` and ``state`` (a ``DisputeState``) are 0 until the challenge is on the chain. ``bond``, ``reward`` and
    ``burnt`` are in uassay. ``largest`` is the largest reward that the challenge can bring.
    """

    order_id: bytes
    leg: int
    round: int
    place: AuditPlace
    finding: Finding
    claim: bytes
    largest: int
    number: int = 0
    state: int = 0
    bond: int = 0
    reward: int = 0
    burnt: int = 0

    @property
    def round_key(self) -> RoundKey:
        """The key of the round."""
        return RoundKey(self.order_id, self.leg, self.round)

    @property
    def is_pending(self) -> bool:
        """True if the challenge is not on the chain yet."""
        return not self.number

    @property
    def is_live(self) -> bool:
        """True if the challenge's bond is locked."""
        return self.state in LIVE


_PLACE = (bytes, int, int, int, int, int, int, int)
_CHALLENGES = RecordTable("challenges", OwnChallenge, _PLACE)
_OWNERS = RecordTable("owners", str, (str,))


@contextmanager
def locked_tower(directory: Path) -> Iterator[None]:
    """Lock ``directory`` against other watchtowers; WatchtowerError if one runs there."""

    def refused(other: int) -> WatchtowerError:
        return WatchtowerError(
            f"a watchtower already runs in {directory}: process {other or '?'}",
            "stop that watchtower, or use another --home",
        )

    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    with lock.held(directory / "watchtower.lock", refused):
        yield


class TowerStore:
    """The challenges of a watchtower in ``watchtower.db``."""

    def __init__(self, path: Path) -> None:
        """Open or create the database; WatchtowerError if the file cannot be used."""
        try:
            self._records = Records(path, (_CHALLENGES, _OWNERS), codec, FORM)
        except Unusable as error:
            raise WatchtowerError(str(error)) from None
        self._records.set_aside_damaged()

    def close(self) -> None:
        """Close the database."""
        self._records.close()

    def own(self, chain_id: str, address: str) -> None:
        """Record the chain and the account of this home; WatchtowerError if it belongs to others."""
        for name, value in (("chain", chain_id), ("address", address)):
            known = self._records.get(_OWNERS, name)
            if known is None:
                self._records.put(_OWNERS, value, name)
            elif known != value:
                raise WatchtowerError(
                    f"this home has challenges of {known}, and not of {value}", "use another --home for it"
                )

    def challenges(self) -> list[OwnChallenge]:
        """Return all challenges, by order, leg, round and place."""
        return [challenge for _, challenge in self._records.scan(_CHALLENGES)]

    def put(self, challenge: OwnChallenge) -> None:
        """Write a challenge."""
        self._records.put(_CHALLENGES, challenge, *_key(challenge))

    def delete(self, challenge: OwnChallenge) -> None:
        """Delete a challenge."""
        self._records.delete(_CHALLENGES, *_key(challenge))


def _key(challenge: OwnChallenge) -> tuple[bytes, int, int, int, int, int, int, int]:
    place = challenge.place
    return (
        challenge.order_id,
        challenge.leg,
        challenge.round,
        int(place.kind),
        place.slot,
        place.issue,
        place.segment,
        place.chunk,
    )
