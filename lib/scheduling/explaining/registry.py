"""Which class explains which plugin."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from lib.scheduling.explaining.inter_pod_affinity import InterPodAffinityExplainer
from lib.scheduling.explaining.node_affinity import NodeAffinityExplainer
from lib.scheduling.explaining.node_name import NodeNameExplainer
from lib.scheduling.explaining.node_ports import NodePortsExplainer
from lib.scheduling.explaining.node_resources_fit import NodeResourcesFitExplainer
from lib.scheduling.explaining.node_unschedulable import NodeUnschedulableExplainer
from lib.scheduling.explaining.pod_topology_spread import PodTopologySpreadExplainer
from lib.scheduling.explaining.taint_toleration import TaintTolerationExplainer
from lib.scheduling.framework.interface import Plugin

EXPLAINERS: Mapping[str, Plugin] = {
    explainer.name: explainer
    for explainer in (
        NodeUnschedulableExplainer(),
        NodeNameExplainer(),
        TaintTolerationExplainer(),
        NodeAffinityExplainer(),
        NodePortsExplainer(),
        NodeResourcesFitExplainer(),
        PodTopologySpreadExplainer(),
        InterPodAffinityExplainer(),
    )
}
"""By plugin."""

_OF_WINGS = {
    "VolumeRestrictions": "volume_restrictions",
    "NodeVolumeLimits": "node_volume_limits",
    "VolumeBinding": "volume_binding",
    "VolumeZone": "volume_zone",
    "DynamicResources": "dynamic_resources",
}
"""By plugin, the module of what explains volumes and devices. It is large, so it is loaded when one of these
has rejected a pod. None of them knows a remedy."""


def explainer_of(plugin: Plugin) -> Plugin:
    """What explains a plugin's rejections (ExplainPlugin): a class of this folder, or the plugin itself."""
    return _of_wing(plugin.name) or EXPLAINERS.get(plugin.name, plugin)


def adviser_of(plugin: Plugin) -> Plugin:
    """What says what may help (RemedyPlugin), if anything does: the same, without those of wings."""
    return EXPLAINERS.get(plugin.name, plugin)


@cache
def _of_wing(name: str) -> Plugin | None:
    if name not in _OF_WINGS:
        return None
    module = import_module(f"{__package__}.{_OF_WINGS[name]}")
    explainer: Plugin = getattr(module, f"{name}Explainer")()
    return explainer
