"""What Prometheus would read of a process."""

from prometheus_client.parser import text_string_to_metric_families


def values(text: bytes) -> dict[tuple[str, ...], float]:
    """Return the name of each sample with the sorted values of its labels, to its value."""
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }
