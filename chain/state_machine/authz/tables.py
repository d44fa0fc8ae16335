"""Tables of authorizations."""

from chain.state_machine.tables import KeySet, Table
from domain.authz.records import AuthorizationGrant

# Key: grantee, granter, type of message.
AUTHORIZATIONS = Table(0x6B, "authorization", AuthorizationGrant, lambda r: (r.grantee, r.granter, r.url))
# Key: granter, grantee, type of message.
AUTHORIZATIONS_BY = KeySet(0x6C, "authorization of a granter")
# The first second at which an authorization has expired. Key: second since 1970, grantee, granter, type of message.
AUTHORIZATION_ENDS = KeySet(0x6D, "end of an authorization")
