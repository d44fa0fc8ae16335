"""What the node component says."""

from domain.node.queries import EventsRequest, ParamsRequest, StatusRequest
from domain.words import Words

WORDS = Words(
    name="node",
    queries=(
        StatusRequest,
        ParamsRequest,
        EventsRequest,
    ),
)
