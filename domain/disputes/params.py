"""Parameters of the disputes component."""

from dataclasses import dataclass

from domain.bounds import Bps, Money
from domain.readable import Readable


@dataclass(frozen=True, slots=True)
class DisputesParams(Readable):
    """The disputes component's rules, with the defaults of a public network.

    Example::

        print(assay.Params().of(assay.DisputesParams).challenge_reward_bps)
    """

    # Least bond (uassay) of a challenge. It is lost if the challenge is not opened in time.
    challenge_min: Money = 1_000_000
    # Part (bps) of the bond of the party at fault. A challenger whose claim the ruling confirms gets this part.
    challenge_reward_bps: Bps = 2_000


LOCAL = DisputesParams(challenge_min=10_000)
"""The values of a local network."""
