"""Which of kube-scheduler's features poller has, by the names of their gates; and which version it follows.

Only gates that change where a pod goes, or when it is tried. The stages are those of Kubernetes 1.36.
Source: pkg/features/kube_features.go, pkg/scheduler/framework/plugins/feature/feature.go
"""

import platform
from collections.abc import Iterator
from importlib.util import find_spec
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Gauge

from lib import __version__
from lib.version import commit

KUBERNETES = "1.36.2"
"""The version whose kube-scheduler decides as poller does."""

CEL = "cel_expr_python"
"""The package for the selectors of devices."""

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Go's names of processors, by those of Linux."""


class Feature(NamedTuple):
    """A gate of kube-scheduler."""

    name: str
    stage: str
    """ALPHA, BETA or, if it is stable, nothing."""
    enabled: bool


ALWAYS_ON = {
    "": ["InPlacePodVerticalScaling", "NodeInclusionPolicyInPodTopologySpread", "SchedulerQueueingHints",
         "SidecarContainers", "VolumeAttributesClass"],
    "BETA": ["InPlacePodLevelResourcesVerticalScaling", "MatchLabelKeysInPodTopologySpread",
             "NodeDeclaredFeatures", "PodLevelResources", "SchedulerPopFromBackoffQ"],
    "ALPHA": ["GangScheduling", "GenericWorkload"],
}  # fmt: skip
"""kube-scheduler has the last two off: here, they do something only for pods that name a PodGroup."""

ON_WITH_CEL = {
    "": ["DRAAdminAccess", "DRAPrioritizedList", "DynamicResourceAllocation"],
    "BETA": ["DRAConsumableCapacity", "DRADeviceBindingConditions", "DRADeviceTaints", "DRAExtendedResource",
             "DRAPartitionableDevices", "DRAResourceClaimDeviceStatus", "DRASchedulerFilterTimeout"],
}  # fmt: skip
"""The features for devices, which need CEL."""

OFF = {
    "BETA": ["DRADeviceTaintRules"],
    "ALPHA": ["DRAListTypeAttributes", "DRANodeAllocatableResources", "DRAWorkloadResourceClaims",
              "StorageCapacityScoring",
              "TaintTolerationComparisonOperators", "TopologyAwareWorkloadScheduling", "VolumeLimitScaling",
              "WorkloadAwarePreemption"],
}  # fmt: skip


def features() -> Iterator[Feature]:
    """Each gate."""
    for gates, enabled in ((ALWAYS_ON, True), (ON_WITH_CEL, find_spec(CEL) is not None), (OFF, False)):
        for stage, names in gates.items():
            for name in names:
                yield Feature(name, stage, enabled)


def add_to(registry: CollectorRegistry) -> None:
    """Add the metrics of the features and of the build (component-base/metrics/version.go)."""
    enabled = Gauge(
        "kubernetes_feature_enabled",
        "Whether poller does what kube-scheduler does with this feature: 1, or 0.",
        ["name", "stage"],
        registry=registry,
    )
    for feature in features():
        enabled.labels(feature.name, feature.stage).set(feature.enabled)
    major, minor, _ = KUBERNETES.split(".")
    labels = {
        "major": major,
        "minor": minor,
        "git_version": f"v{KUBERNETES}+poller-{__version__}",
        "git_commit": commit(),
        "git_tree_state": "",
        "build_date": "",
        "go_version": "",
        "compiler": platform.python_implementation(),
        "platform": f"linux/{MACHINES.get(platform.machine(), platform.machine())}",
    }
    build = Gauge(
        "kubernetes_build_info",
        "1, with the version of Kubernetes whose kube-scheduler decides as poller does.",
        labels,
        registry=registry,
    )
    build.labels(**labels).set(1)
