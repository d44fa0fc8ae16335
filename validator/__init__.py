"""The validator's daemon: it takes payloads, runs its cluster, replays traces, and audits other validators' rounds."""
