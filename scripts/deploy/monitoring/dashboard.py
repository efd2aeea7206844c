"""Writes dashboard.json, for Grafana: what poller does, and whether it is well.

    python -m venv sdk && sdk/bin/pip install grafana-foundation-sdk==1769699998!10.1.0
    sdk/bin/python scripts/deploy/monitoring/dashboard.py

Each panel is a title, what it shows, its queries with their legends, and a unit.
"""

from pathlib import Path
from typing import NamedTuple

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common, dashboard as models

FILE = Path(__file__).with_name("dashboard.json")


class Panel(NamedTuple):
    """A panel. queries: each with its legend. unit: Grafana's name of it. width: of 24."""

    title: str
    shows: str
    queries: dict[str, str]
    unit: str = "short"
    width: int = 8


def percentile(share: float, metric: str, by: str = "") -> str:
    """The query of a histogram's percentile."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (rate({metric}_bucket[$__rate_interval])))"


ROWS: dict[str, list[Panel]] = {
    "Is all well?": [
        Panel(
            "Leader",
            "Who schedules; the others stand by. There is one.",
            {"sum by (instance) (leader_election_master_status)": "{{instance}}"},
        ),
        Panel(
            "Pods that wait",
            "active and backoff: to be tried; unschedulable: tried in vain; gated: not to be tried yet.",
            # For a poller that stands by, all pods are active: it counts only if none leads.
            {
                "sum by (queue) (scheduler_pending_pods"
                " unless on (job, instance) (leader_election_master_status == 0))"
                " or max by (queue) (scheduler_pending_pods)": "{{queue}}"
            },
        ),
        Panel(
            "Attempts",
            "Pods a second that were tried, by how that ended.",
            {"sum by (result) (rate(scheduler_schedule_attempts_total[$__rate_interval]))": "{{result}}"},
            "ops",
        ),
    ],
    "How fast?": [
        Panel(
            "Time until a pod is bound",
            "From its creation, as poller sees it, over all attempts.",
            {
                percentile(share, "scheduler_pod_scheduling_sli_duration_seconds"): f"p{share * 100:.0f}"
                for share in (0.5, 0.95, 0.99)
            },
            "s",
        ),
        Panel(
            "Time of a decision",
            "Without what is written.",
            {
                percentile(share, "scheduler_scheduling_algorithm_duration_seconds"): f"p{share * 100:.0f}"
                for share in (0.5, 0.95, 0.99)
            },
            "s",
        ),
        Panel(
            "Time of extension points, p95",
            "All plugins of an extension point, for a pod.",
            {
                percentile(
                    0.95, "scheduler_framework_extension_point_duration_seconds", "extension_point"
                ): "{{extension_point}}"
            },
            "s",
        ),
    ],
    "Why do pods wait?": [
        Panel(
            "Plugins that reject",
            "Pods that were tried in vain, by each plugin that rejected them.",
            {"max by (plugin) (scheduler_unschedulable_pods)": "{{plugin}}"},
        ),
        Panel(
            "Preemption",
            "Attempts to make room, and pods evicted, a second.",
            {
                "sum(rate(scheduler_preemption_attempts_total[$__rate_interval]))": "attempts",
                "sum(rate(scheduler_preemption_victims_sum[$__rate_interval]))": "victims",
            },
            "ops",
        ),
        Panel(
            "What brings pods into the queue",
            "By the change in the cluster.",
            {"sum by (event) (rate(scheduler_queue_incoming_pods_total[$__rate_interval]))": "{{event}}"},
            "ops",
        ),
    ],
    "The loop and the API server": [
        Panel(
            "Ticks",
            "A tick polls, decides and writes.",
            {"sum by (result) (rate(poller_ticks_total[$__rate_interval]))": "{{result}}"},
            "ops",
            6,
        ),
        Panel(
            "Requests, by answer",
            "<error>: no answer came.",
            {"sum by (code) (rate(rest_client_requests_total[$__rate_interval]))": "{{code}}"},
            "reqps",
            6,
        ),
        Panel(
            "Time of requests, p95",
            "By verb.",
            {percentile(0.95, "rest_client_request_duration_seconds", "verb"): "{{verb}}"},
            "s",
            6,
        ),
        Panel(
            "Writes that failed",
            "For good: of events, conditions, bindings.",
            {"sum by (write) (rate(poller_failed_writes_total[$__rate_interval]))": "{{write}}"},
            "ops",
            6,
        ),
    ],
    "The process": [
        Panel("Memory", "Resident.", {"process_resident_memory_bytes": "{{instance}}"}, "bytes"),
        Panel("CPU", "Cores.", {"rate(process_cpu_seconds_total[$__rate_interval])": "{{instance}}"}),
        Panel(
            "What the cache holds",
            "As of the last poll.",
            {"max by (type) (scheduler_cache_size)": "{{type}}"},
        ),
    ],
}


def built(panel: Panel) -> timeseries.Panel:
    """A panel for Grafana."""
    made = timeseries.Panel().title(panel.title).description(panel.shows).unit(panel.unit)
    made = made.min(0).height(8).span(panel.width)
    for query, legend in panel.queries.items():
        made = made.with_target(prometheus.Dataquery().expr(query).legend_format(legend))
    return made.datasource(models.DataSourceRef(type_val="prometheus", uid="${datasource}"))


def main() -> None:
    """Write the file."""
    versions = stat.Panel().title("Versions").span(24).height(3).text_mode(common.BigValueTextMode.NAME)
    versions = versions.with_target(
        prometheus.Dataquery().expr("count by (version) (poller_build_info)").legend_format("{{version}}")
    ).datasource(models.DataSourceRef(type_val="prometheus", uid="${datasource}"))
    page = (
        dashboard.Dashboard("poller")
        .uid("poller")
        .tags(["kubernetes", "scheduler"])
        .time("now-1h", "now")
        .refresh("30s")
        .with_variable(dashboard.DatasourceVariable("datasource").type("prometheus").label("Prometheus"))
        .with_panel(versions)
    )
    for title, panels in ROWS.items():
        page = page.with_row(dashboard.Row(title))
        for panel in panels:
            page = page.with_panel(built(panel))
    FILE.write_text(JSONEncoder(sort_keys=True, indent=2).encode(page.build()) + "\n")


if __name__ == "__main__":
    main()
