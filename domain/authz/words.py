"""The vocabulary of the component of authorizations."""

from domain.authz.events import AuthorizationEnded, AuthorizationRevoked, AuthorizationUsed, MessagesAuthorized
from domain.authz.messages import MsgExec, MsgGrant, MsgRevoke
from domain.words import Words

WORDS = Words(
    name="authz",
    messages=(MsgGrant, MsgExec, MsgRevoke),
    events=(MessagesAuthorized, AuthorizationUsed, AuthorizationRevoked, AuthorizationEnded),
    message_packages=("cosmpy.protos.cosmos.authz.v1beta1",),
    packed_modules=(
        "cosmpy.protos.cosmos.authz.v1beta1.authz_pb2",
        "cosmpy.protos.cosmos.bank.v1beta1.authz_pb2",
    ),
)
