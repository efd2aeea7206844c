"""Which pods can be asked about together: each node rejects them alike, whatever else the cluster has."""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from lib.kube.matcher import Index
from lib.kube.objects import Container, ObjectMeta, Pod, with_parts
from lib.questions.deciding import Decider
from lib.scheduling.affinity import Term, terms_of

MOST_TERMS = 100
"""A pod is compared with so many terms of others at most: there may be thousands that match any label."""


class Kinds:
    """Kinds of pods. decider: has their profiles. others: all pods that are ever in the cluster."""

    def __init__(self, decider: Decider, others: Iterable[Pod]) -> None:
        self._decider = decider
        self._keep_off = Index[tuple[int, Term]]()
        anti_affine = (pod for pod in others if pod.spec.affinity.pod_anti_affinity)
        terms = dict.fromkeys(term for pod in anti_affine for term in terms_of(pod).anti_affinity)
        for number, term in enumerate(terms):
            if term.matcher:
                self._keep_off.add(term.matcher, number, (number, term))

    def kind(self, pod: Pod) -> bytes:
        """The same for pods that are alike.

        If a pod compares itself with no others, its labels count only for the terms that keep it off; its
        images, and the names of its containers and volumes, say nothing of where it fits.
        """
        too_many = self._keep_off.count(pod.metadata.labels) > MOST_TERMS
        if too_many or not self._decider.fits_by_node(pod):
            no_name = {"name": "", "uid": "", "creation_timestamp": None, "finalizers": ()}
            return msgspec.json.encode(with_parts(pod, metadata=no_name), enc_hook=int)
        spec = replace(
            pod.spec,
            containers=_without_names(pod.spec.containers),
            init_containers=_without_names(pod.spec.init_containers),
            volumes=[replace(volume, name="") for volume in pod.spec.volumes],
        )
        matching = self._keep_off.matching(pod.metadata.labels)
        keep_off = sorted(number for number, term in matching if term.may_select(pod))
        by_namespace = any(term.of_namespaces for _, term in matching)
        about = ObjectMeta(namespace=pod.metadata.namespace if by_namespace else "")
        return msgspec.json.encode((replace(pod, metadata=about, spec=spec), keep_off), enc_hook=int)


def _without_names(containers: Iterable[Container]) -> list[Container]:
    return [replace(container, name="", image="") for container in containers]
