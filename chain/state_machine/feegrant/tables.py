"""Tables of fee grants."""

from chain.state_machine.tables import KeySet, Table
from domain.feegrant.records import FeeGrant

# Key: grantee, granter.
FEE_GRANTS = Table(0x13, "fee grant", FeeGrant, lambda r: (r.grantee, r.granter))
# Key: granter, grantee.
FEE_GRANTS_BY = KeySet(0x14, "fee grant of a granter")
# The first second at which a fee grant has expired. Key: second since 1970, grantee, granter.
FEE_GRANT_ENDS = KeySet(0x15, "end of a fee grant")
