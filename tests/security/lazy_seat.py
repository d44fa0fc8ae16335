"""The adversary A26: a seat of a panel that recomputes nothing, and repeats the root that the chain has.

Its answer needs a digest of the recomputed state with the stage's seed, and its commitment covers its own address. So
it has two ways: to invent a digest, or to copy the commitment of an honest seat.
"""

from hashlib import sha256

from domain.keys import PanelKey
from domain.proof.records import AnswerKind, SeatAnswer
from pol.rules.tiers.exact import EXACT
from pol.rules.tiers.tier import AnswerVerdict, Quorum, Vote

KEY = PanelKey(order_id=bytes(32), leg=1, round=0, dispute=0)
SEATS = ("cosmos1first", "cosmos1second", "cosmos1lazy")


def answer(root: bytes, digest: bytes, *earlier: bytes) -> SeatAnswer:
    """Return an answer for the first place of a panel."""
    return SeatAnswer(place=0, kind=AnswerKind.FINISHED, root=root, digest=digest, step=0, earlier=earlier)


def verdict_on(lot: bytes, seats: int) -> AnswerVerdict:
    """Return the verdict on a lazy seat among so many in the first stage of a panel. The others are honest.

    It repeats the claimed root with an invented digest. If the stage does not decide, honest seats of the next one do.
    """
    root = sha256(lot + b"root").digest()
    inner, state = [sha256(lot + b"inner").digest()], [lot * 4]
    # Before the seed, the lazy seat knows the roots of the trace, but not the bytes of the states.
    lazy = answer(root, *EXACT.digests([lot], [root], [root]))
    true = answer(root, *EXACT.digests([lot], inner, state))
    votes = [*[Vote(1, 1, true)] * (seats - 1), Vote(1, 1, lazy)]
    quorum = Quorum(auditors=3, eligible=99, stake=99, is_last=False, claim=root, stop=None)
    while (finding := EXACT.decide(votes, quorum)) is None:
        earlier, own = EXACT.digests([lot, sha256(lot).digest()], inner, state)
        later = answer(root, own, earlier)
        votes += [Vote(2, 1, later)] * EXACT.count_wanted(votes, quorum)
    return EXACT.judge(votes, finding, False)[seats - 1]


def is_copy_refused(lot: bytes) -> bool:
    """Return whether the commitment of another seat is useless to a lazy seat."""
    own = answer(sha256(lot).digest(), lot)
    first, *_, lazy = (EXACT.commitment("assay-matrix", KEY, 1, seat, lot, [own]) for seat in SEATS)
    return first != lazy
