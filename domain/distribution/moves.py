"""The pot of rewards, and the reasons for which fees, rewards and coins of the community pool move."""

from domain.ledger.moves import ACCOUNTS_POT, COMMUNITY_POT, FEES_POT
from domain.moves import Move, Pot

# Rewards that are not withdrawn. The address is that of the Cosmos SDK's module of this name.
REWARDS_POT = Pot("distribution", "assay1jv65s3grqf6v6jl3dp4t6c9t9rk99cd8mmk98d")

POTS = (REWARDS_POT,)

SHARE_FEES = Move("share_fees", FEES_POT, REWARDS_POT)
COMMUNITY_TAX = Move("community_tax", REWARDS_POT, COMMUNITY_POT)
REWARD = Move("reward", REWARDS_POT, ACCOUNTS_POT)
COMMISSION = Move("commission", REWARDS_POT, ACCOUNTS_POT)
COMMUNITY_FUND = Move("community_fund", ACCOUNTS_POT, COMMUNITY_POT)
COMMUNITY_SPEND = Move("community_spend", COMMUNITY_POT, ACCOUNTS_POT)

MOVES = (SHARE_FEES, COMMUNITY_TAX, REWARD, COMMISSION, COMMUNITY_FUND, COMMUNITY_SPEND)
