"""Queries of the Cosmos SDK's services, whose answers are printed as its REST gateways write them."""

from typing import Any

from assay.cli.context import CommandContext


def show(context: CommandContext, path: str, request: Any, response: Any) -> None:
    """Call a gRPC method, and print its answer as JSON. ``response`` is the protobuf class of the answer."""
    import json

    from chain.app.rest.forms import to_json

    with context.client() as client:
        answer = client.call(path, request, response)
    context.output.document(json.loads(to_json(answer)))
