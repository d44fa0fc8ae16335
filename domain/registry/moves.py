"""The pot that the registry keeps."""

from domain.moves import Pot

# Stakes of validators. Owner of these coins: the operator.
STAKES_POT = Pot("stakes", "assay1sdsq68pzzg3s7yaz62ufpxhcyr7ka2dnaptpp6")

POTS = (STAKES_POT,)
