"""The vocabulary of the component of fee grants."""

from domain.feegrant.events import FeeGrantEnded, FeeGrantRevoked, FeeGrantUsed, FeesGranted
from domain.feegrant.messages import MsgGrantAllowance, MsgPruneAllowances, MsgRevokeAllowance
from domain.words import Words

WORDS = Words(
    name="feegrant",
    messages=(MsgGrantAllowance, MsgRevokeAllowance, MsgPruneAllowances),
    events=(FeesGranted, FeeGrantUsed, FeeGrantRevoked, FeeGrantEnded),
    message_packages=("cosmpy.protos.cosmos.feegrant.v1beta1",),
    packed_modules=("cosmpy.protos.cosmos.feegrant.v1beta1.feegrant_pb2",),
)
