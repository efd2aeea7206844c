"""Which plugins there are, and the profiles made of them."""

from collections.abc import Mapping
from random import Random as Generator

from lib.scheduling.extender import Extenders
from lib.scheduling.framework import Plugin, Profile
from lib.scheduling.plugins.default_preemption import DefaultPreemption
from lib.scheduling.plugins.image_locality import ImageLocality
from lib.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from lib.scheduling.plugins.node_affinity import NodeAffinity
from lib.scheduling.plugins.node_name import NodeName
from lib.scheduling.plugins.node_ports import NodePorts
from lib.scheduling.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from lib.scheduling.plugins.node_resources_fit import NodeResourcesFit
from lib.scheduling.plugins.node_unschedulable import NodeUnschedulable
from lib.scheduling.plugins.pod_topology_spread import PodTopologySpread
from lib.scheduling.plugins.priority_sort import PrioritySort
from lib.scheduling.plugins.random import Random
from lib.scheduling.plugins.scheduling_gates import SchedulingGates
from lib.scheduling.plugins.taint_toleration import TaintToleration

WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}
"""kube-scheduler's (pkg/scheduler/apis/config/v1/default_plugins.go)."""


def default_profile(
    scheduler_name: str,
    *more: Plugin,
    weights: Mapping[str, int] | None = None,
    preemption: bool = True,
    extenders: Extenders | None = None,
) -> Profile:
    """kube-scheduler's plugins, in its order and with its weights; then more, with theirs."""
    plugins = (*_default_plugins(preemption, extenders), *more)
    return Profile(scheduler_name, plugins, {**WEIGHTS, **(weights or {})})


def random_profile(
    scheduler_name: str,
    generator: Generator,
    *,
    preemption: bool = True,
    extenders: Extenders | None = None,
) -> Profile:
    """The default filters, and chance in place of scores."""
    chance = Random(generator)
    plugins = (*_default_plugins(preemption, extenders), chance)
    return Profile(scheduler_name, plugins, {chance.name: 1})


def _default_plugins(preemption: bool, extenders: Extenders | None) -> tuple[Plugin, ...]:
    extenders = extenders or Extenders()
    return (
        SchedulingGates(),
        PrioritySort(),
        NodeUnschedulable(),
        NodeName(),
        TaintToleration(),
        NodeAffinity(),
        NodePorts(),
        NodeResourcesFit(ignored_resources=extenders.ignored_resources),
        PodTopologySpread(),
        InterPodAffinity(),
        *([DefaultPreemption(extenders)] if preemption else []),
        NodeResourcesBalancedAllocation(),
        ImageLocality(),
    )
