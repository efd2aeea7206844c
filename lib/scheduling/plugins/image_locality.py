"""ImageLocality: a node that has a pod's images already starts it sooner.

An image counts by its size. It counts less if few nodes have it, because all pods would go to the one node
that has it otherwise.

Source: pkg/scheduler/framework/plugins/imagelocality/image_locality.go
"""

from collections import Counter
from collections.abc import Hashable, Sequence

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import DependsOn
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.status import MAX_NODE_SCORE, CycleState

MEGABYTE = 1024 * 1024
SMALLEST = 23 * MEGABYTE
"""Images with a total size under this don't count."""
LARGEST = 1000 * MEGABYTE
"""For each container, only sizes up to this count."""


class ImageLocality:
    """Scores the images of the pod that a node has."""

    name = "ImageLocality"
    reads = DependsOn.NODES

    def sign_pod(self, pod: Pod) -> Hashable:
        """The pod's images."""
        return tuple(_images(pod)), _containers(pod)

    def pre_score(self, state: CycleState, pod: Pod, cache: Cache, nodes: Sequence[NodeInfo]) -> None:
        """Add up the pod's images on each node. An image counts by the share of all nodes that has it."""
        sums: dict[str, int] = {}
        for image, times in Counter(_images(pod)).items():
            sizes = cache.image_sizes.get(image, {})
            share = len(sizes) / len(cache.nodes)
            for name, size in sizes.items():
                sums[name] = sums.get(name, 0) + times * int(size * share)
        state[self.name] = sums, LARGEST * _containers(pod)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> Sequence[int]:
        """The total size of the pod's images on a node, in proportion between SMALLEST and the largest."""
        sizes, largest = state[self.name]
        if not sizes:  # most pods' images are on no node yet
            return [0] * len(nodes)
        counted = (min(max(sizes.get(node.name, 0), SMALLEST), largest) for node in nodes)
        return [MAX_NODE_SCORE * (size - SMALLEST) // (largest - SMALLEST) for size in counted]


def _images(pod: Pod) -> list[str]:
    names = [container.image for container in [*pod.spec.init_containers, *pod.spec.containers]]
    names += [volume.image.reference for volume in pod.spec.volumes if volume.image]
    return [normalized(name) for name in names]


def _containers(pod: Pod) -> int:
    return len(pod.spec.init_containers) + len(pod.spec.containers)


def normalized(image: str) -> str:
    """An image's name as nodes report it: without a tag, ":latest" is added."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
