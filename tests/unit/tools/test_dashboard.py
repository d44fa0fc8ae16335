"""The dashboard for Grafana asks for metrics that there are, and leaves none of them out."""

import json
import re
from typing import Any

from host.metrics import MetricKind
from tools.references.operator import PARTS
from tools.references.source import ROOT

DASHBOARD = ROOT / "docs" / "operate" / "grafana.json"
METRICS = {metric.name: metric for _, _, metrics in PARTS for metric in metrics}
ENDS = ("", "_bucket", "_sum", "_count")


def queries() -> list[str]:
    panels: list[Any] = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def exposed() -> dict[str, str]:
    """Return every name that Prometheus stores, to the name of its metric."""
    return {
        name + end: name
        for name, metric in METRICS.items()
        for end in (ENDS[1:] if metric.kind is MetricKind.HISTOGRAM else ENDS[:1])
    }


def test_every_metric_has_a_name_and_a_unit_as_prometheus_wants_them() -> None:
    assert sum(len(metrics) for _, _, metrics in PARTS) == len(METRICS)
    for title, _, metrics in PARTS:
        for metric in metrics:
            assert re.fullmatch(r"assay_[a-z_]+[a-z]", metric.name)
            assert metric.name.startswith(f"assay_{title.lower()}_")
            assert metric.name.endswith("_total") is (metric.kind is MetricKind.COUNTER), metric
            assert metric.help.endswith(".")


def test_the_dashboard_asks_for_what_there_is_and_for_all_of_it() -> None:
    named = {name for query in queries() for name in re.findall(r"assay_[a-z_]+", query)}
    assert named - exposed().keys() == set()
    assert METRICS.keys() - {exposed()[name] for name in named} == set()


def test_the_dashboard_asks_for_labels_that_there_are() -> None:
    for query in queries():
        labels = {label for name in re.findall(r"assay_[a-z_]+", query) for label in METRICS[exposed()[name]].labels}
        grouped = {label.strip() for group in re.findall(r"by \(([^)]*)\)", query) for label in group.split(",")}
        assert grouped <= labels | {"le"}, query
