"""All plugins, how each is made, and the built-in profiles."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from lib.scheduling.framework.interface import Plugin, Profile
from lib.scheduling.handle import Handle
from lib.scheduling.plugins.default_binder import DefaultBinder
from lib.scheduling.plugins.default_preemption import DefaultPreemption
from lib.scheduling.plugins.dynamic_resources import DynamicResources
from lib.scheduling.plugins.image_locality import ImageLocality
from lib.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from lib.scheduling.plugins.node_affinity import NodeAffinity
from lib.scheduling.plugins.node_declared_features import NodeDeclaredFeatures
from lib.scheduling.plugins.node_name import NodeName
from lib.scheduling.plugins.node_ports import NodePorts
from lib.scheduling.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from lib.scheduling.plugins.node_resources_fit import NodeResourcesFit
from lib.scheduling.plugins.node_unschedulable import NodeUnschedulable
from lib.scheduling.plugins.node_volume_limits import NodeVolumeLimits
from lib.scheduling.plugins.pod_topology_spread import PodTopologySpread
from lib.scheduling.plugins.priority_sort import PrioritySort
from lib.scheduling.plugins.scheduling_gates import SchedulingGates
from lib.scheduling.plugins.taint_toleration import TaintToleration
from lib.scheduling.plugins.volume_binding import VolumeBinding
from lib.scheduling.plugins.volume_restrictions import VolumeRestrictions
from lib.scheduling.plugins.volume_zone import VolumeZone

_DEFAULT: Mapping[type, int] = {
    SchedulingGates: 0,
    PrioritySort: 0,
    NodeUnschedulable: 0,
    NodeName: 0,
    TaintToleration: 3,
    NodeAffinity: 2,
    NodePorts: 0,
    NodeResourcesFit: 1,
    VolumeRestrictions: 0,
    NodeVolumeLimits: 0,
    VolumeBinding: 1,
    VolumeZone: 0,
    PodTopologySpread: 2,
    InterPodAffinity: 2,
    DynamicResources: 2,
    DefaultPreemption: 0,
    NodeResourcesBalancedAllocation: 1,
    ImageLocality: 1,
    NodeDeclaredFeatures: 0,
    DefaultBinder: 0,
}
"""kube-scheduler's, in its order, with their weights (pkg/scheduler/apis/config/v1/default_plugins.go)."""

_OWN = {
    "ActualLoad": "actual_load",
    "NodeNumber": "node_number",
    "Random": "random_score",
    "RandomFilter": "random_score",
}
"""poller's own, which a configuration or a policy can enable, with their modules: few runs load them."""

DEFAULT_PLUGINS = {kind.__name__: weight for kind, weight in _DEFAULT.items()}
PLUGINS = (*DEFAULT_PLUGINS, *_OWN)
LACKING = ("GangScheduling", "PodGroupPodsCount", "TopologyPlacementGenerator")
"""kube-scheduler's plugins that poller doesn't have."""
WEIGHTS = {name: weight for name, weight in DEFAULT_PLUGINS.items() if weight}


def kind_of(name: str) -> type | None:
    """The class of a plugin; None if there is none of this name."""
    if module := _OWN.get(name):
        kind: type = getattr(import_module(f"{__package__}.{module}"), name)
        return kind
    return next((kind for kind in _DEFAULT if kind.__name__ == name), None)


def make(name: str, handle: Handle, arguments: Mapping[str, Any]) -> Plugin:
    """The plugin of this name. It gets the handle if it has such a field. arguments: for its other fields."""
    kind = kind_of(name)
    assert kind
    of_poller = {"handle": handle} if "handle" in getattr(kind, "__dataclass_fields__", ()) else {}
    plugin: Plugin = kind(**arguments, **of_poller)
    return plugin


def default_profile(
    scheduler_name: str,
    *more: Plugin,
    weights: Mapping[str, int] | None = None,
    preemption: bool = True,
    handle: Handle | None = None,
) -> Profile:
    """kube-scheduler's plugins, in its order and with its weights; then more plugins, with their weights."""
    plugins = _default_plugins(handle or Handle(), preemption, *more)
    return Profile(scheduler_name, plugins, {**WEIGHTS, **(weights or {})})


def random_profile(
    scheduler_name: str,
    handle: Handle,
    *,
    preemption: bool = True,
) -> Profile:
    """The default filters, and random scores."""
    chance = make("Random", handle, {})
    plugins = _default_plugins(handle, preemption, chance)
    return Profile(scheduler_name, plugins, {chance.name: 1})


def _default_plugins(handle: Handle, preemption: bool, *more: Plugin) -> tuple[Plugin, ...]:
    """The default plugins, with more before the last one: DefaultBinder, which must be the last."""
    names = [name for name in DEFAULT_PLUGINS if preemption or name != DefaultPreemption.name]
    *most, binder = [make(name, handle, {}) for name in names]
    return (*most, *more, binder)
