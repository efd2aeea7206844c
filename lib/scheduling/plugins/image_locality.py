"""ImageLocality: a node that has a pod's images already starts it sooner.

An image counts by its size, and the less the fewer nodes have it, so that pods don't all go to the one node
that has it.

Source: pkg/scheduler/framework/plugins/imagelocality/image_locality.go
"""

from collections.abc import Sequence

from lib.kube.objects import Pod
from lib.scheduling.cluster import Cluster, NodeInfo
from lib.scheduling.framework import MAX_NODE_SCORE, CycleState

MEGABYTE = 1024 * 1024
SMALLEST = 23 * MEGABYTE
"""Images of less than this in sum don't count."""
LARGEST = 1000 * MEGABYTE
"""More than this for each container doesn't count."""


class ImageLocality:
    """Scores the images of the pod that a node has."""

    name = "ImageLocality"

    def pre_score(self, state: CycleState, pod: Pod, cluster: Cluster, nodes: Sequence[NodeInfo]) -> None:
        """Find the pod's images, and how widely each is spread."""
        containers = [*pod.spec.init_containers, *pod.spec.containers]
        images = [normalized(container.image) for container in containers]
        images += [normalized(volume.image.reference) for volume in pod.spec.volumes if volume.image]
        spread = [(image, cluster.image_spread[image] / len(cluster.nodes)) for image in images]
        state[self.name] = spread, LARGEST * len(containers)

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """The sizes of the images that are here, between the smallest and the largest that count."""
        spread, largest = state[self.name]
        size = sum(int(node.images[image] * share) for image, share in spread if image in node.images)
        size = min(max(size, SMALLEST), largest)
        return int(MAX_NODE_SCORE * (size - SMALLEST) // (largest - SMALLEST))


def normalized(image: str) -> str:
    """An image's name as nodes report it: with the tag that is meant where none is given."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
