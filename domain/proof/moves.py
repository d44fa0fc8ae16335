"""The pot that the proof component keeps, and the reasons for which rounds, rejections and panels move coins."""

from domain.ledger.moves import ACCOUNTS_POT, BURNT_POT, COMMUNITY_POT, ESCROWS_POT
from domain.moves import Move, Pot, Uses
from domain.staking.moves import STAKES_POT

# Stake cut from seats that were silent or differed. The coins stay here until their round ends. Owner: the round.
AUDITS_POT = Pot("audits", "assay125wpjvugu6ayxhy2vf98c7n62r5c9naqqypplz")

POTS = (AUDITS_POT,)

PROVIDER = Move(name="provider", source=ESCROWS_POT, target=ACCOUNTS_POT, uses=Uses.DEPOSIT)
AUDITOR = Move(name="auditor", source=ESCROWS_POT, target=ACCOUNTS_POT, uses=Uses.DEPOSIT)
PROTOCOL = Move(name="protocol", source=ESCROWS_POT, target=COMMUNITY_POT, uses=Uses.DEPOSIT)
# The refund of a void round whose states the consumer took before the round was verified.
REFUND_BURN = Move(name="refund_burn", source=ESCROWS_POT, target=BURNT_POT, uses=Uses.DEPOSIT)
# Taken from the coins withheld from a validator that rejected a right share, and then from its stake.
WITHHELD_COMPENSATION = Move(name="withheld_compensation", source=ESCROWS_POT, target=ACCOUNTS_POT, uses=Uses.WITHHELD)
WITHHELD_BURN = Move(name="withheld_burn", source=ESCROWS_POT, target=BURNT_POT, uses=Uses.WITHHELD)
STAKE_BURN = Move("stake_burn", STAKES_POT, BURNT_POT)
# Moves for the seats of panels.
CUT = Move("cut", STAKES_POT, AUDITS_POT)
# Stake of the validator of a wrong round. It pays seats, and the rest is burnt.
SLASH = Move("slash", STAKES_POT, AUDITS_POT)
CUT_SHARE = Move("cut_share", AUDITS_POT, ACCOUNTS_POT)
CUT_BURN = Move("cut_burn", AUDITS_POT, BURNT_POT)
POOL_SHARE = Move("pool_share", COMMUNITY_POT, ACCOUNTS_POT)
# Taken from the bond of the party at fault, for the party that found a wrong place.
FINDER_REWARD = Move(name="finder_reward", source=ESCROWS_POT, target=ACCOUNTS_POT, uses=Uses.BOND)

MOVES = (
    PROVIDER,
    AUDITOR,
    PROTOCOL,
    REFUND_BURN,
    WITHHELD_COMPENSATION,
    WITHHELD_BURN,
    STAKE_BURN,
    CUT,
    SLASH,
    CUT_SHARE,
    CUT_BURN,
    POOL_SHARE,
    FINDER_REWARD,
)
