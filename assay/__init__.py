"""Assay: a marketplace node for verified machine-learning training.

What a program of yours uses is here, and nothing else is promised::

    import assay

    job = assay.build_job(Path("job.py"), Path("my-job"))
    with assay.Client("127.0.0.1:9090") as client:
        print(client.status().height)

Names are imported when they are first used: the generated modules ``assay.<part>.v1`` live in this package too, and
the node, which needs them, must not load numerics.
"""

from importlib import import_module
from typing import Any

# The one list of public names; after a change, python -m tools.exports writes the stub for type checkers.
ORIGINS = {
    "SGD": "pol.tracing.spec:SGD",
    "AdamW": "pol.tracing.spec:AdamW",
    "Average": "pol.tracing.spec:Average",
    "ChainError": "chain.client.errors:ChainError",
    "Client": "chain.client.client:ChainClient",
    "Conditions": "domain.records:Conditions",
    "ConsumerError": "consumer.errors:ConsumerError",
    "Delivery": "consumer.watch:Delivery",
    "JobError": "pol.errors:JobError",
    "JobSpec": "pol.tracing.spec:JobSpec",
    "Key": "wire.keys:Key",
    "Keyring": "chain.client.keyring:Keyring",
    "Lion": "pol.tracing.spec:Lion",
    "LoadedJob": "pol.job.load:LoadedJob",
    "Nesterov": "pol.tracing.spec:Nesterov",
    "Precision": "pol.tracing.spec:Precision",
    "Request": "consumer.submit:Request",
    "TxSender": "chain.client.sender:TxSender",
    "accuracy": "pol.tracing.spec:accuracy",
    "build_job": "pol.tracing.build:build_job",
    "cross_entropy": "pol.tracing.spec:cross_entropy",
    "fetch_result": "consumer.result:fetch_result",
    "load_job": "pol.job.load:load_job",
    "load_result": "pol.tracing.loading:load_result",
    "load_trace": "pol.replay.trace_file:read_trace",
    "quote": "consumer.submit:quote",
    "read_job": "consumer.jobs:read_job",
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
