"""What a pod's request of a resource is made of: for people who ask `why`."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from lib.kube.objects import Container, Pod
from lib.scheduling.resources import Resources, amounts, pod_requests, total
from lib.scheduling.text import amount, listed


@lru_cache(maxsize=1024)  # asked for each node
def sum_text(pod: Pod, name: str) -> str:
    """`500m of its container, 250m of its RuntimeClass's overhead`; "" for what a lone container requests.

    Also "" in a resize, in which other amounts count.
    """
    spec = pod.spec
    overhead = amounts(spec.overhead).get(name, 0)
    parts: list[tuple[int, str]] = []
    if name in spec.resources.requests:
        parts.append((amounts(spec.resources.requests)[name], "of the pod as a whole"))
    else:
        sidecars = [container for container in spec.init_containers if container.restart_policy == "Always"]
        running = _of(spec.containers).get(name, 0) + _of(sidecars).get(name, 0)
        first, beside = max(
            (
                (container, _beside(container, spec.init_containers).get(name, 0))
                for container in spec.init_containers
            ),
            key=lambda with_beside: _of([with_beside[0]]).get(name, 0) + with_beside[1],
            default=(None, 0),
        )
        alone = _of([first]).get(name, 0) if first else 0
        if first and alone + beside > running:
            parts.append((alone, f"of init container {first.name}"))
            parts.append((beside, "of the sidecars that run beside it"))
        else:
            parts += [
                (_of([container]).get(name, 0), f"of {container.name}") for container in spec.containers
            ]
            parts += [(_of([sidecar]).get(name, 0), f"of sidecar {sidecar.name}") for sidecar in sidecars]
    parts.append((overhead, "of its RuntimeClass's overhead"))
    counted = [(many, what) for many, what in parts if many]
    is_plain = (
        len(counted) == 1 and len(spec.containers) == 1 and counted[0][1] == f"of {spec.containers[0].name}"
    )
    if is_plain or sum(many for many, _ in counted) != pod_requests(pod).get(name, 0):
        return ""
    return listed(f"{amount(name, many)} {what}" for many, what in counted)


def _of(containers: Iterable[Container]) -> Resources:
    return amounts(total(container.resources.requests for container in containers))


def _beside(container: Container, all_of_them: Iterable[Container]) -> Mapping[str, int]:
    """What the sidecars request that have started before an init container."""
    sidecars = []
    for other in all_of_them:
        if other is container:
            break
        if other.restart_policy == "Always":
            sidecars.append(other)
    return _of(sidecars)
