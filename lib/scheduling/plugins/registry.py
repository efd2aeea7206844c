"""Which plugins there are, in the order in which they are asked, which is kube-scheduler's."""

from lib.scheduling.framework import Plugin
from lib.scheduling.plugins.node_affinity import NodeAffinity
from lib.scheduling.plugins.node_resources_fit import NodeResourcesFit
from lib.scheduling.plugins.node_unschedulable import NodeUnschedulable
from lib.scheduling.plugins.taint_toleration import TaintToleration


def default_plugins() -> list[Plugin]:
    """The plugins of the default profile."""
    return [NodeUnschedulable(), TaintToleration(), NodeAffinity(), NodeResourcesFit()]
