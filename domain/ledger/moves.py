"""The pots that the ledger keeps, and the reasons for which it moves coins of accounts, bond accounts and escrows."""

from domain.moves import Move, Pot, Uses

# Owner of these coins: an address.
ACCOUNTS_POT = Pot("accounts")
# Bond accounts, with the coins that wait for their release. Owner of these coins: an address.
BONDS_POT = Pot("bonds", "assay1vvxdzdetrrqf89k9jr80ep4y09h0dr8hweez8h")
# Deposits and bonds of orders. Owner of these coins: the order's id in hex.
ESCROWS_POT = Pot("escrows", "assay157annce2zatsvmcmgwzlhppukm9s07xrthqp7u")
FEES_POT = Pot("fees", "assay1lxjck4m8lpk56nncppqk5hjst0m99xc3pru89e")
COMMUNITY_POT = Pot("community", "assay1nsftlzpcvtmhva69pkz8zzc9cwtaczjm7vs696")
# Burnt coins: no coins ever leave this pot.
BURNT_POT = Pot("burnt", "assay1jjp2ny3dnaxws4ujccdy9hk2k3q6nw0laqp0py")

POTS = (ACCOUNTS_POT, BONDS_POT, ESCROWS_POT, FEES_POT, COMMUNITY_POT, BURNT_POT)

SEND = Move("send", ACCOUNTS_POT, ACCOUNTS_POT)
FEE = Move("fee", ACCOUNTS_POT, FEES_POT)
BOND_DEPOSIT = Move("bond_deposit", ACCOUNTS_POT, BONDS_POT)
BOND_RELEASE = Move("bond_release", BONDS_POT, ACCOUNTS_POT)
DEPOSIT = Move("deposit", ACCOUNTS_POT, ESCROWS_POT)
JOB_BOND = Move("job_bond", BONDS_POT, ESCROWS_POT)
SHARE_BOND = Move("share_bond", BONDS_POT, ESCROWS_POT)
CHALLENGE_BOND = Move("challenge_bond", BONDS_POT, ESCROWS_POT)
VALIDATOR = Move(name="validator", source=ESCROWS_POT, target=ACCOUNTS_POT, uses=Uses.WITHHELD)
REFUND = Move(name="refund", source=ESCROWS_POT, target=ACCOUNTS_POT, uses=Uses.DEPOSIT)
BOND_RETURN = Move(name="bond_return", source=ESCROWS_POT, target=BONDS_POT, uses=Uses.BOND)

MOVES = (
    SEND,
    FEE,
    BOND_DEPOSIT,
    BOND_RELEASE,
    DEPOSIT,
    JOB_BOND,
    SHARE_BOND,
    CHALLENGE_BOND,
    VALIDATOR,
    REFUND,
    BOND_RETURN,
)
