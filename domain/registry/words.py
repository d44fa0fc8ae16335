"""The vocabulary of the registry component."""

from domain.registry.events import (
    AuditsPromised,
    BeaconKeyRevoked,
    BeaconKeySet,
    EndpointSet,
    FaultCounted,
    ProviderAdmitted,
    ProviderCertified,
    ProviderDismissed,
    ProviderLeft,
    ProviderRegistered,
    ValidatorReleased,
)
from domain.registry.messages import (
    MsgAdmitProvider,
    MsgCertifyProvider,
    MsgDismissProvider,
    MsgLeaveCluster,
    MsgPromiseAudits,
    MsgRegisterProvider,
    MsgRevokeBeaconKey,
    MsgSetBeaconKey,
    MsgSetEndpoint,
)
from domain.registry.params import LOCAL, RegistryParams
from domain.registry.queries import ProviderRequest, ProvidersRequest, ValidatorsRequest
from domain.words import Words

WORDS = Words(
    name="registry",
    messages=(
        MsgSetEndpoint,
        MsgSetBeaconKey,
        MsgRevokeBeaconKey,
        MsgRegisterProvider,
        MsgLeaveCluster,
        MsgAdmitProvider,
        MsgDismissProvider,
        MsgCertifyProvider,
        MsgPromiseAudits,
    ),
    events=(
        EndpointSet,
        BeaconKeySet,
        BeaconKeyRevoked,
        AuditsPromised,
        FaultCounted,
        ValidatorReleased,
        ProviderRegistered,
        ProviderLeft,
        ProviderAdmitted,
        ProviderDismissed,
        ProviderCertified,
    ),
    queries=(
        ValidatorsRequest,
        ProvidersRequest,
        ProviderRequest,
    ),
    message_packages=("assay.registry.v1",),
    query_packages=("assay.registry.v1",),
    params=RegistryParams,
    local_params=LOCAL,
)
