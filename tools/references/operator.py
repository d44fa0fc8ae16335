"""Pages for operators: metrics, and the keys of ``config.toml``."""

import chain.app.metrics
import compute_provider.metrics
import validator.metrics
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
)


def metrics_page() -> str:
    """Return the page of all metrics."""
    parts = [
        "Each process tells its metrics at `/metrics` of its own port on 127.0.0.1, and at `/healthz` and `/readyz`"
        " whether it lives and whether it does what it is for (200, or 503 with the reason). Off by default:"
        " `--metrics-port`, or `metrics_port` in [config.toml](configuration.md).",
        "Seconds, bytes and uassay are whole units. A gauge that nothing is known of is not a number (NaN). Every"
        " process has the `process_` metrics of Prometheus (memory, CPU time, files) as well, and CometBFT its own:"
        " `assay node start --comet-metrics-port 26660`. A [dashboard](../operate/grafana.json) shows the most of it.",
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
        "`config.toml` lies in the home (`~/.assay`, `ASSAY_HOME`, `--home`), and is checked whenever a command reads"
        " it: a key that there is not is refused, with the nearest one there is. An option wins over a variable of"
        " the environment, that over the file, and the file over the default; `assay config show` tells which it was.",
        table(("key", "value", "default", "option", "variable", "meaning"), rows),
        "What stands in front of the dot is a table:",
        '```toml\nnode_address = "127.0.0.1:9090"\n\n[validator]\nendpoint = "validator.example:9191"\n'
        "metrics_port = 9465\n```",
        "`ASSAY_HOME` names the home, and `ASSAY_PASSPHRASE` the passphrase of keys, for programs. CometBFT has a file"
        " of its own in `node/config/config.toml`.",
        source="assay/settings/configuration.py",
    )
