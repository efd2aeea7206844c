"""How many volumes the drivers of a node can attach, and what takes the places."""

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Lines
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.node_volume_limits import TOO_MANY, NewVolumes
from lib.scheduling.status import CycleState, Status
from lib.scheduling.text import Line, count, names
from lib.scheduling.volumes import attached


class NodeVolumeLimitsExplainer:
    """Explains NodeVolumeLimits."""

    name = "NodeVolumeLimits"

    def explain(self, state: CycleState, pod: Pod, cache: Cache, node: NodeInfo, status: Status) -> Lines:
        """How many volumes the node's drivers can attach, and what takes the places."""
        if status.reasons != TOO_MANY.reasons:
            return
        new: NewVolumes = state[self.name]
        on_node = new.attached.on(node)
        for driver, wanted in new.not_yet_on(node).items():
            if (free := on_node.room(driver)) >= wanted:
                continue
            takers = [*attached.takers(driver, node, cache.storage)]
            taken = f": {names(takers)}" if takers else ""
            limit = on_node.limits[driver]
            words = f"driver {driver} attaches no more than {count(limit, 'volume')} here{taken}"
            numbers = {"driver": driver, "needs": wanted, "has": limit, "free": free}
            held_by = {holder: many for taker in takers for holder, many in taker.numbers["held_by"].items()}
            yield Line(words, resource="volumes", held_by=held_by, **numbers)
