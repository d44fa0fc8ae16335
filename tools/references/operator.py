"""Pages for operators: metrics, and the keys of ``config.toml``."""

import chain.app.metrics
import compute_provider.metrics
import validator.metrics
import validator.watch.metrics
from assay.settings.configuration import SETTINGS
from host.metrics import Metric
from tools.references.markdown import code, page, table

PARTS: tuple[tuple[str, str, tuple[Metric, ...]], ...] = (
    ("Node", "assay node start --metrics-port 9464", chain.app.metrics.METRICS),
    ("Validator", "assay validator run --metrics-port 9465", validator.metrics.METRICS),
    (
        "Provider",
        "assay provider join VALIDATOR --metrics-port 9466",
        compute_provider.metrics.METRICS,
    ),
    ("Watchtower", "assay watchtower --metrics-port 9467", validator.watch.metrics.METRICS),
)


def metrics_page() -> str:
    """Return the page of all metrics."""
    parts = [
        "Each process serves its metrics at `/metrics` of its own port on 127.0.0.1. `/healthz` reports whether the"
        " process is alive, and `/readyz` whether it is ready for work: the status is 200, or 503 with the reason. The"
        " port is off by default; set it with `--metrics-port`, or with `metrics_port` in"
        " [config.toml](configuration.md).",
        "Units are whole seconds, bytes and uassay. A gauge with an unknown value is NaN. Every process also has the"
        " `process_` metrics of Prometheus (memory, CPU time, files), and CometBFT has its own metrics:"
        " `assay node start --comet-metrics-port 26660`. A [dashboard](../operate/grafana.json) shows most of them.",
    ]
    for title, command, metrics in PARTS:
        rows = [
            (code(metric.name), metric.kind.value, ", ".join(map(code, metric.labels)), metric.help)
            for metric in metrics
        ]
        parts += [
            f"## {title}",
            f"    {command}",
            table(("name", "kind", "labels", "meaning"), rows),
        ]
    return page("Metrics", *parts, source="the tables of chain/app, validator and compute_provider")


def configuration_page() -> str:
    """Return the page of the keys of ``config.toml``."""
    rows = [
        (
            code(setting.name),
            code(setting.kind.name),
            "" if setting.default is None else code(str(setting.default)),
            code(setting.option),
            code(setting.variable),
            setting.meaning,
        )
        for setting in SETTINGS
    ]
    return page(
        "Configuration",
        "`config.toml` is in the home (`~/.assay`, `ASSAY_HOME`, `--home`). Each command that reads it checks it: an"
        " unknown key is refused, with the most similar known key. An option overrides an environment variable, which"
        " overrides the file, which overrides the default. `assay config show` shows the source of each value.",
        table(("key", "value", "default", "option", "variable", "meaning"), rows),
        "The part before the dot is a table:",
        '```toml\nnode_address = "127.0.0.1:9090"\n\n[validator]\nendpoint = "validator.example:9191"\n'
        "metrics_port = 9465\n```",
        "The variable `ASSAY_HOME` sets the home, and `ASSAY_PASSPHRASE` the passphrase of keys, for programs. CometBFT"
        " has its own file, `node/config/config.toml`.",
        source="assay/settings/configuration.py",
    )
