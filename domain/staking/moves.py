"""The pots that hold stake, and the reasons for which stake moves."""

from domain.ledger.moves import ACCOUNTS_POT
from domain.moves import Move, Pot

# Tokens of bonded validators. Owner of these coins: the operator.
STAKES_POT = Pot("stakes", "assay1sdsq68pzzg3s7yaz62ufpxhcyr7ka2dnaptpp6")
# Tokens of validators that are not bonded, and the coins in unbonding pools. Owner of these coins: the operator.
UNBONDED_POT = Pot("unbonded", "assay1kkrq94sun7wvt6whz6q4cmn85f9a32nehtzxhf")

POTS = (STAKES_POT, UNBONDED_POT)

DELEGATE = Move("delegate", ACCOUNTS_POT, STAKES_POT)
DELEGATE_UNBONDED = Move("delegate_unbonded", ACCOUNTS_POT, UNBONDED_POT)
UNDELEGATED = Move("undelegated", UNBONDED_POT, ACCOUNTS_POT)
# Between the two pots: a validator enters or leaves the set, and delegated coins leave or return.
BOND = Move("bond", UNBONDED_POT, STAKES_POT)
UNBOND = Move("unbond", STAKES_POT, UNBONDED_POT)

MOVES = (DELEGATE, DELEGATE_UNBONDED, UNDELEGATED, BOND, UNBOND)
