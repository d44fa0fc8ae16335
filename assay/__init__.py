"""Assay: a marketplace for verified machine-learning training.

This module is the public interface for programs; other modules may change::

    import assay

    assay.build_job(assay.JobSpec(..., name="mine", model=model), "my-job")
    with assay.connect() as network:
        order = network.submit("my-job")
        for event in order.events():
            print(event)
        assay.load_result(model, order.result())

Each name is imported on first use. The package also holds the generated modules ``assay.<part>.v1``. A node imports
this package for these modules, and must not load the numerical libraries with it.
"""

from importlib import import_module
from typing import Any

# The public names, each with its module and its name there. After a change run python -m tools.exports, which writes
# the stub for type checkers.
ORIGINS = {
    "AccountResponse": "domain.ledger.queries:AccountResponse",
    "AdamW": "pol.capture.author.spec:AdamW",
    "Asker": "consumer.words:Asker",
    "Average": "pol.capture.author.spec:Average",
    "Bid": "domain.market.records:Bid",
    "BlockHead": "chain.client.client:BlockHead",
    "BorderMemory": "pol.capture.codecs.border:BorderMemory",
    "BroadcastResult": "domain.block:BroadcastResult",
    "ChainError": "chain.client.errors:ChainError",
    "ChainTimeout": "chain.client.errors:ChainTimeout",
    "ChallengeCommitted": "domain.disputes.events:ChallengeCommitted",
    "ChallengeOpened": "domain.disputes.events:ChallengeOpened",
    "ChallengerRewarded": "domain.disputes.events:ChallengerRewarded",
    "Change": "domain.events:Change",
    "Check": "pol.replay.replay:Check",
    "CheckedOrder": "consumer.submit:CheckedOrder",
    "Client": "chain.client.client:ChainClient",
    "CloseReason": "domain.market.reasons:CloseReason",
    "ClusterError": "link.errors:ClusterError",
    "Code": "domain.errors:Code",
    "ChallengeTerms": "domain.market.records:ChallengeTerms",
    "Conditions": "domain.market.records:Conditions",
    "ConsumerError": "consumer.errors:ConsumerError",
    "DGC": "pol.capture.author.codecs:DGC",
    "Dataset": "pol.job.dataset:Dataset",
    "Dense": "pol.capture.author.codecs:Dense",
    "Delivery": "consumer.watch:Delivery",
    "DeliveryFoundWrong": "domain.proof.events:DeliveryFoundWrong",
    "DeliveryKeyShown": "domain.proof.events:DeliveryKeyShown",
    "DeliveryReceived": "domain.proof.events:DeliveryReceived",
    "DeliveryWitnessed": "domain.proof.events:DeliveryWitnessed",
    "DisputeEnded": "domain.disputes.events:DisputeEnded",
    "DisputeState": "domain.disputes.records:DisputeState",
    "DisputesParams": "domain.disputes.params:DisputesParams",
    "Engine": "pol.executor.names:Engine",
    "Error": "domain.errors:Expected",
    "ErrorKind": "chain.client.errors:ErrorKind",
    "FineTuning": "pol.capture.author.hugging_face:FineTuning",
    "GradientAt": "pol.capture.optim.gradient_at:GradientAt",
    "HandoverError": "link.handover:HandoverError",
    "HandoverFoundWrong": "domain.proof.events:HandoverFoundWrong",
    "HandoverTaken": "domain.proof.events:HandoverTaken",
    "HasState": "pol.capture.loading:HasState",
    "HasTraining": "pol.job.checkpoint:HasTraining",
    "Job": "pol.job.document:Job",
    "JobDocument": "pol.job.document:JobDocument",
    "JobError": "pol.errors:JobError",
    "JobFile": "pol.job.document:JobFile",
    "JobSpec": "pol.capture.author.spec:JobSpec",
    "JobSummary": "pol.local.inspect:JobSummary",
    "JobTerms": "domain.market.records:JobTerms",
    "Key": "wire.keys:Key",
    "KeyInfo": "chain.client.keyring:KeyInfo",
    "Keyring": "chain.client.keyring:Keyring",
    "KeyringBackend": "chain.client.keyring:KeyringBackend",
    "KeyringError": "chain.client.keyring:KeyringError",
    "LedgerParams": "domain.ledger.params:LedgerParams",
    "LegEnd": "domain.legs.reasons:LegEnd",
    "LegFailed": "domain.legs.events:LegFailed",
    "LegsParams": "domain.legs.params:LegsParams",
    "Limits": "pol.limits:Limits",
    "Lion": "pol.capture.author.spec:Lion",
    "LoadedJob": "pol.job.load:LoadedJob",
    "LocalRun": "pol.local.run:LocalRun",
    "MarketParams": "domain.market.params:MarketParams",
    "Nesterov": "pol.capture.author.spec:Nesterov",
    "NodeParams": "domain.node.params:NodeParams",
    "Order": "domain.market.records:Order",
    "OrderAccepted": "domain.legs.events:OrderAccepted",
    "OrderClosed": "domain.market.events:OrderClosed",
    "OrderDeclined": "domain.legs.events:OrderDeclined",
    "OrderMatched": "domain.legs.events:OrderMatched",
    "OrderOpened": "domain.market.events:OrderOpened",
    "OrderOptions": "consumer.request:OrderOptions",
    "OrderProven": "domain.legs.events:OrderProven",
    "OrderResponse": "domain.proof.queries:OrderResponse",
    "OrderSettled": "domain.legs.events:OrderSettled",
    "OrderState": "domain.market.records:OrderState",
    "OrderSubmitted": "domain.market.events:OrderSubmitted",
    "OrderUnmatched": "domain.market.events:OrderUnmatched",
    "OrderVerified": "domain.proof.events:OrderVerified",
    "Outlook": "pol.rules.outlook:Outlook",
    "PanelKey": "domain.keys:PanelKey",
    "Params": "domain.params:Params",
    "PartEnd": "domain.legs.reasons:PartEnd",
    "PaymentMade": "domain.ledger.events:PaymentMade",
    "Phase": "pol.capture.author.spec:Phase",
    "PlaceRuled": "domain.proof.events:PlaceRuled",
    "PlacedOrder": "assay.session:PlacedOrder",
    "Position": "pol.job.checkpoint:Position",
    "Precision": "pol.capture.author.spec:Precision",
    "ProofParams": "domain.proof.params:ProofParams",
    "Quantised": "pol.capture.author.codecs:Quantised",
    "Quote": "consumer.submit:Quote",
    "ReceiptAsked": "domain.proof.events:ReceiptAsked",
    "Refusal": "domain.errors:Refusal",
    "RegistryParams": "domain.registry.params:RegistryParams",
    "Request": "consumer.request:Request",
    "Result": "consumer.result:Result",
    "RoundClosed": "domain.proof.events:RoundClosed",
    "RoundEnd": "pol.replay.trace_file:RoundEnd",
    "RoundKey": "domain.keys:RoundKey",
    "RoundReport": "pol.local.run:RoundReport",
    "RoundStopped": "domain.proof.events:RoundStopped",
    "RoundVerified": "domain.proof.events:RoundVerified",
    "RoundVoid": "domain.proof.events:RoundVoid",
    "RowsInOrder": "pol.capture.author.spec:RowsInOrder",
    "RuleStep": "pol.capture.optim.update_rules:RuleStep",
    "SAM": "pol.capture.optim.gradient_at:SAM",
    "SGD": "pol.capture.author.spec:SGD",
    "Sampling": "pol.job.sampling:Sampling",
    "Session": "assay.session:Session",
    "ShareAccepted": "domain.proof.events:ShareAccepted",
    "ShareCommitted": "domain.proof.events:ShareCommitted",
    "ShareDrawn": "domain.proof.events:ShareDrawn",
    "ShareKey": "domain.keys:ShareKey",
    "ShareReason": "domain.proof.reasons:ShareReason",
    "ShareRecord": "pol.replay.trace_file:ShareRecord",
    "ShareRejected": "domain.proof.events:ShareRejected",
    "SimulateMatchResponse": "domain.market.queries:SimulateMatchResponse",
    "Start": "pol.job.document:Start",
    "Sparse": "pol.capture.author.codecs:Sparse",
    "StatesLacked": "domain.legs.events:StatesLacked",
    "StatesRuled": "domain.proof.events:StatesRuled",
    "StatusResponse": "domain.node.queries:StatusResponse",
    "StillWaiting": "consumer.errors:StillWaiting",
    "Stopped": "pol.errors:Stopped",
    "SubmittedOrder": "consumer.submit:SubmittedOrder",
    "Summary": "consumer.watch:Summary",
    "TensorSpec": "pol.values:TensorSpec",
    "TensorTolerance": "pol.job.tolerance:TensorTolerance",
    "TextRows": "pol.capture.author.text:TextRows",
    "Tolerance": "pol.job.tolerance:Tolerance",
    "Trace": "pol.replay.trace_file:Trace",
    "TraceError": "pol.errors:TraceError",
    "Traffic": "pol.rules.traffic:Traffic",
    "TxReceipt": "chain.client.client:TxReceipt",
    "TxRefused": "chain.client.errors:TxRefused",
    "TxSender": "chain.client.sender:TxSender",
    "UpdateRule": "pol.capture.optim.update_rules:UpdateRule",
    "Waiting": "consumer.waiting:Waiting",
    "WeightedRows": "pol.capture.author.spec:WeightedRows",
    "Why": "consumer.why:Why",
    "WitnessesDrawn": "domain.proof.events:WitnessesDrawn",
    "accuracy": "pol.capture.author.measures:accuracy",
    "border": "pol.capture.codecs.border:border",
    "build_job": "pol.capture.build:build_job",
    "connect": "assay.session:connect",
    "cross_entropy": "pol.capture.author.measures:cross_entropy",
    "fetch_result": "consumer.result:fetch_result",
    "fine_tuning": "pol.capture.author.hugging_face:fine_tuning",
    "inspect_job": "pol.local.inspect:inspect_job",
    "job_outlook": "pol.local.inspect:job_outlook",
    "load_job": "pol.job.load:load_job",
    "load_result": "pol.capture.loading:load_result",
    "load_trace": "pol.replay.trace_file:read_trace",
    "quote": "consumer.submit:quote",
    "read_job": "consumer.jobs:read_job",
    "repeat": "pol.capture.loops.repeating:repeat",
    "run_locally": "pol.local.run:run_locally",
    "submit": "consumer.submit:submit",
    "text_rows": "pol.capture.author.text:text_rows",
    "update_rule": "pol.capture.optim.update_rules:update_rule",
    "verify_trace": "pol.replay.replay:verify_trace",
    "wait_for": "consumer.watch:wait_for",
}

__all__ = sorted(ORIGINS)  # noqa: PLE0605 - the table is the list


def __getattr__(name: str) -> Any:
    """Import and return a public name when a program first uses it."""
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
