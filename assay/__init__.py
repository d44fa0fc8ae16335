"""Assay: a marketplace node for verified machine-learning training.

What a program of yours uses is here, and nothing else is promised::

    import assay

    assay.build_job(assay.JobSpec(..., name="mine", model=model), "my-job")
    with assay.connect() as network:
        order = network.submit("my-job")
        for event in order.events():
            print(event)
        assay.load_result(model, order.result())

Names are imported when they are first used: the generated modules ``assay.<part>.v1`` live in this package too, and
the node, which needs them, must not load numerics.
"""

from importlib import import_module
from typing import Any

# The one list of public names; after a change, python -m tools.exports writes the stub for type checkers.
ORIGINS = {
    "AdamW": "pol.tracing.spec:AdamW",
    "AttemptEnd": "domain.reasons:AttemptEnd",
    "AttemptFailed": "domain.events:AttemptFailed",
    "Average": "pol.tracing.spec:Average",
    "ChainError": "chain.client.errors:ChainError",
    "Change": "domain.events:Change",
    "Check": "pol.replay.replay:Check",
    "Client": "chain.client.client:ChainClient",
    "CloseReason": "domain.reasons:CloseReason",
    "Conditions": "domain.records:Conditions",
    "ConsumerError": "consumer.errors:ConsumerError",
    "Delivery": "consumer.watch:Delivery",
    "Error": "domain.errors:Expected",
    "Job": "pol.job.document:Job",
    "JobError": "pol.errors:JobError",
    "JobSpec": "pol.tracing.spec:JobSpec",
    "Key": "wire.keys:Key",
    "Keyring": "chain.client.keyring:Keyring",
    "KeyringBackend": "chain.client.keyring:KeyringBackend",
    "Lion": "pol.tracing.spec:Lion",
    "LoadedJob": "pol.job.load:LoadedJob",
    "LocalRun": "pol.local.run:LocalRun",
    "Nesterov": "pol.tracing.spec:Nesterov",
    "OrderAccepted": "domain.events:OrderAccepted",
    "OrderClosed": "domain.events:OrderClosed",
    "OrderDeclined": "domain.events:OrderDeclined",
    "OrderMatched": "domain.events:OrderMatched",
    "OrderOpened": "domain.events:OrderOpened",
    "OrderProven": "domain.events:OrderProven",
    "OrderSettled": "domain.events:OrderSettled",
    "OrderState": "domain.records:OrderState",
    "OrderSubmitted": "domain.events:OrderSubmitted",
    "OrderUnmatched": "domain.events:OrderUnmatched",
    "OrderVerified": "domain.events:OrderVerified",
    "PaymentMade": "domain.events:PaymentMade",
    "PlaceRuled": "domain.events:PlaceRuled",
    "PlacedOrder": "assay.session:PlacedOrder",
    "Precision": "pol.tracing.spec:Precision",
    "Quote": "consumer.submit:Quote",
    "Refusal": "domain.errors:Refusal",
    "Request": "consumer.submit:Request",
    "Result": "consumer.result:Result",
    "RoundClosed": "domain.events:RoundClosed",
    "RoundStopped": "domain.events:RoundStopped",
    "RoundVerified": "domain.events:RoundVerified",
    "RoundVoid": "domain.events:RoundVoid",
    "SGD": "pol.tracing.spec:SGD",
    "Session": "assay.session:Session",
    "ShareAccepted": "domain.events:ShareAccepted",
    "ShareCommitted": "domain.events:ShareCommitted",
    "ShareDrawn": "domain.events:ShareDrawn",
    "ShareReason": "domain.reasons:ShareReason",
    "ShareRejected": "domain.events:ShareRejected",
    "StillWaiting": "consumer.errors:StillWaiting",
    "SubmittedOrder": "consumer.submit:SubmittedOrder",
    "Summary": "consumer.watch:Summary",
    "Trace": "pol.replay.trace_file:Trace",
    "TxSender": "chain.client.sender:TxSender",
    "Why": "consumer.why:Why",
    "accuracy": "pol.tracing.spec:accuracy",
    "build_job": "pol.tracing.build:build_job",
    "connect": "assay.session:connect",
    "cross_entropy": "pol.tracing.spec:cross_entropy",
    "fetch_result": "consumer.result:fetch_result",
    "load_job": "pol.job.load:load_job",
    "load_result": "pol.tracing.loading:load_result",
    "load_trace": "pol.replay.trace_file:read_trace",
    "quote": "consumer.submit:quote",
    "read_job": "consumer.jobs:read_job",
    "repeat": "pol.tracing.repeating:repeat",
    "run_locally": "pol.local.run:run_locally",
    "submit": "consumer.submit:submit",
    "text_rows": "pol.tracing.text:text_rows",
    "verify_trace": "pol.replay.replay:verify_trace",
    "wait_for": "consumer.watch:wait_for",
}

__all__ = sorted(ORIGINS)  # noqa: PLE0605 - the table is the list


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    origin = ORIGINS.get(name)
    if origin is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = origin.partition(":")
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return list(__all__)
