"""Which class explains which plugin."""

from collections.abc import Mapping, Sequence

from lib.scheduling.explaining.dynamic_resources import DynamicResourcesExplainer
from lib.scheduling.explaining.inter_pod_affinity import InterPodAffinityExplainer
from lib.scheduling.explaining.node_affinity import NodeAffinityExplainer
from lib.scheduling.explaining.node_name import NodeNameExplainer
from lib.scheduling.explaining.node_ports import NodePortsExplainer
from lib.scheduling.explaining.node_resources_fit import NodeResourcesFitExplainer
from lib.scheduling.explaining.node_unschedulable import NodeUnschedulableExplainer
from lib.scheduling.explaining.node_volume_limits import NodeVolumeLimitsExplainer
from lib.scheduling.explaining.pod_topology_spread import PodTopologySpreadExplainer
from lib.scheduling.explaining.taint_toleration import TaintTolerationExplainer
from lib.scheduling.explaining.volume_binding import VolumeBindingExplainer
from lib.scheduling.explaining.volume_restrictions import VolumeRestrictionsExplainer
from lib.scheduling.explaining.volume_zone import VolumeZoneExplainer
from lib.scheduling.framework.interface import Plugin, Profile

EXPLAINERS: Mapping[str, Plugin] = {
    explainer.name: explainer
    for explainer in (
        NodeUnschedulableExplainer(),
        NodeNameExplainer(),
        TaintTolerationExplainer(),
        NodeAffinityExplainer(),
        NodePortsExplainer(),
        NodeResourcesFitExplainer(),
        VolumeRestrictionsExplainer(),
        NodeVolumeLimitsExplainer(),
        VolumeBindingExplainer(),
        VolumeZoneExplainer(),
        PodTopologySpreadExplainer(),
        InterPodAffinityExplainer(),
        DynamicResourcesExplainer(),
    )
}
"""By plugin. Any other plugin explains itself."""


def explainers_of(profile: Profile) -> Sequence[Plugin]:
    """What may have `explain` and `remedies` (ExplainPlugin, RemedyPlugin), in the order of the plugins."""
    return [EXPLAINERS.get(plugin.name, plugin) for plugin in profile.plugins]
