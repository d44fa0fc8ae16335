"""The pot with the fees of panels about evidence, and the reasons for which these coins and lost stake move."""

from domain.ledger.moves import ACCOUNTS_POT, BURNT_POT
from domain.moves import Move, Pot
from domain.staking.moves import STAKES_POT

# Owner of these coins: the account whose evidence is judged.
ATTEST_POT = Pot("attest", "assay1vvquqzkcn4kyt0yht6ecr230wvsagmkmrx7pqj")

POTS = (ATTEST_POT,)

ATTEST_FEE = Move("attest_fee", ACCOUNTS_POT, ATTEST_POT)
ATTEST_PAY = Move("attest_pay", ATTEST_POT, ACCOUNTS_POT)
ATTEST_RETURN = Move("attest_return", ATTEST_POT, ACCOUNTS_POT)
ATTEST_CUT = Move("attest_cut", STAKES_POT, BURNT_POT)

MOVES = (ATTEST_FEE, ATTEST_PAY, ATTEST_RETURN, ATTEST_CUT)
