"""The vocabulary of the node component."""

from domain.node.events import GasPriceChanged, RulesChanged
from domain.node.params import LOCAL, NodeParams
from domain.node.queries import EventsRequest, ParamsRequest, StatusRequest
from domain.words import Words

WORDS = Words(
    name="node",
    events=(RulesChanged, GasPriceChanged),
    queries=(
        StatusRequest,
        ParamsRequest,
        EventsRequest,
    ),
    query_packages=("assay.registry.v1",),
    params=NodeParams,
    local_params=LOCAL,
)
