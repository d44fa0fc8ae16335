"""The validator's daemon: takes payloads, runs its cluster, replays traces, proves, and audits other validators."""
