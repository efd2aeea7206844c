"""New pods of workloads, as controllers and the API server would create them.

Sources: pkg/apis/core/v1/defaults.go; the admission plugins Priority, LimitRanger, RuntimeClass and
DefaultTolerationSeconds; pkg/controller/daemon/util/daemonset_util.go for what DaemonSets add.
"""

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from reprlib import repr as short

import msgspec

from lib.kube.objects import NodeAffinity, NodeSelector, NodeSelectorTerm, ObjectMeta, Pod, Requirement
from lib.kube.selectors import untolerated
from lib.kube.source import MAIN_SCHEDULER
from lib.kube.storage import PersistentVolumeClaim, PersistentVolumeClaimSpec
from lib.questions.errors import QuestionError
from lib.questions.manifests import NEW_HASH, TEMPLATE_HASH, Json, Workload, as_dict, convert
from lib.questions.new_claims import add_claims, claim_volumes
from lib.questions.snapshot import LimitRange, PriorityClass, RuntimeClass, Snapshot
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.node_affinity import wants
from lib.scheduling.plugins.taint_toleration import REPELLING
from lib.scheduling.volumes.assume_cache import Storage

SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

NO_PRIORITY_CLASS = PriorityClass(ObjectMeta(name=""))
"""The priority of pods that name no class, if no class is the global default."""

DEFAULT_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints with the effect NoExecute that every pod tolerates for some time."""

DAEMON_TOLERATIONS = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


@dataclass(frozen=True)
class NewPod:
    """A pod of a workload; if it is a DaemonSet's, with its only node."""

    workload: Workload
    pod: Pod
    node_name: str = ""


class PodMaker:
    """Creates pods of workloads, as they would be in a cluster. Their claims are put into `storage`."""

    def __init__(self, snapshot: Snapshot, storage: Storage) -> None:
        self._storage = storage
        self._priorities = {each.metadata.name: each for each in snapshot.of(PriorityClass)}
        self._runtimes = {each.metadata.name: each for each in snapshot.of(RuntimeClass)}
        self._limits = snapshot.of(LimitRange)

    def pods_of(self, workload: Workload, first: int = 1) -> Iterator[NewPod]:
        """The pods of a workload other than a DaemonSet, numbered from `first`."""
        body = self.body_of(workload)
        number = workload.replicas or 0
        alone = workload.kind == "Pod" and number == 1 and first == 1
        start = first - 1 if workload.kind == "StatefulSet" else first
        for i in range(start, start + number):
            name = workload.name if alone else f"{workload.name}-{i}"
            yield NewPod(workload, self.pod_named(workload, body, name))

    def daemon_pods_of(self, workload: Workload, nodes: Iterable[NodeInfo]) -> Iterator[NewPod]:
        """The pods of a DaemonSet: one for each node that matches and whose taints it tolerates."""
        body = self.body_of(workload)
        like = self.pod_named(workload, body, workload.name)
        for node in nodes:
            if wants(like, node) and not untolerated(like, node.taints, REPELLING):
                yield NewPod(workload, _only_on(like, node.name), node.name)

    def pod_named(self, workload: Workload, body: Json, name: str) -> Pod:
        """A pod of a workload."""
        metadata = {**body["metadata"], "name": name, "uid": f"{workload.uid}-{name}"}
        spec = body["spec"]
        if volumes := claim_volumes(workload.claim_templates, name):
            spec = {**spec, "volumes": [*(spec.get("volumes") or ()), *volumes]}
        pod: Pod = convert({**body, "metadata": metadata, "spec": spec}, Pod, str(workload))
        if pod.spec.volumes:
            add_claims(pod, self._templates_of(workload), self._ephemeral(spec, workload), self._storage)
        return pod

    def _ephemeral(self, spec: Json, workload: Workload) -> dict[str, PersistentVolumeClaimSpec]:
        """By name, the claims of a pod's ephemeral volumes."""
        where, found = str(workload), {}
        for each in spec["volumes"]:
            if asked := as_dict(each.get("ephemeral"), where).get("volumeClaimTemplate"):
                body = as_dict(asked, where).get("spec") or {}
                found[each["name"]] = convert(body, PersistentVolumeClaimSpec, where)
        return found

    def _templates_of(self, workload: Workload) -> list[PersistentVolumeClaim]:
        templates = workload.claim_templates
        return [
            convert({**each, "kind": "PersistentVolumeClaim"}, PersistentVolumeClaim, str(workload))
            for each in templates
        ]

    def body_of(self, workload: Workload) -> Json:
        """The common part of all pods of a workload, with all defaults."""
        template = workload.template
        where = str(workload)
        spec = deepcopy(as_dict(template.get("spec"), where))
        metadata = as_dict(template.get("metadata"), where)
        labels = as_dict(metadata.get("labels"), where)
        if workload.kind == "Deployment":
            labels.setdefault(TEMPLATE_HASH, NEW_HASH)
        spec.setdefault("schedulerName", MAIN_SCHEDULER)
        self._admit(spec, workload)
        head: Json = {
            "namespace": workload.namespace,
            "labels": labels,
            "annotations": as_dict(metadata.get("annotations"), where),
        }
        if workload.owner:
            head["ownerReferences"] = [msgspec.to_builtins(workload.owner)]
        return {"kind": "Pod", "metadata": head, "spec": spec}

    def _admit(self, spec: Json, workload: Workload) -> None:
        where = str(workload)
        self._set_priority(spec, where)
        self._set_runtime(spec, where)
        defaults = self._default_requests(workload.namespace)
        for key in ("containers", "initContainers"):
            containers = spec.get(key) or []
            if not isinstance(containers, list):
                raise QuestionError(f"{where}: spec.{key} is not a list")
            spec[key] = [as_dict(each, where) for each in containers]
            for each in spec[key]:
                each["resources"] = resources = as_dict(each.get("resources"), where)
                limits = as_dict(resources.get("limits"), where)
                resources["requests"] = {
                    **defaults,
                    **limits,
                    **as_dict(resources.get("requests"), where),
                }
                if spec.get("hostNetwork"):
                    for port in each.get("ports") or ():
                        port["hostPort"] = port.get("containerPort", 0)
        tolerations = spec["tolerations"] = [*(spec.get("tolerations") or [])]
        if workload.kind == "DaemonSet":
            added = list(DAEMON_TOLERATIONS)
            if spec.get("hostNetwork"):
                added.append(("node.kubernetes.io/network-unavailable", "NoSchedule"))
        else:
            added = [(key, "NoExecute") for key in DEFAULT_TOLERATIONS]
        tolerations += [{"key": key, "operator": "Exists", "effect": effect} for key, effect in added]

    def _set_priority(self, spec: Json, where: str) -> None:
        """As the admission plugin Priority: plugin/pkg/admission/priority/admission.go."""
        name = spec.get("priorityClassName")
        found: PriorityClass | None
        if not name:
            usual = [each for each in self._priorities.values() if each.global_default]
            found = min(usual, key=lambda each: each.value, default=NO_PRIORITY_CLASS)
        elif name in SYSTEM_PRIORITIES:
            found = PriorityClass(ObjectMeta(name=name), SYSTEM_PRIORITIES[name])
        else:
            found = self._priorities.get(name)
            if found is None:
                raise QuestionError(f"{where}: there is no PriorityClass {name}")
        computed = {"priority": found.value, "preemptionPolicy": found.preemption_policy}
        for key, value in computed.items():
            if spec.get(key, value) != value:
                raise QuestionError(
                    f"{where}: the API server refuses its pods: spec.{key} is {short(spec[key])}, but "
                    f"{f'PriorityClass {name}' if name else 'a pod without a priorityClassName'} has {value}"
                )
        spec |= {**computed, "priorityClassName": found.metadata.name}

    def _set_runtime(self, spec: Json, where: str) -> None:
        name = spec.get("runtimeClassName")
        if not name:
            return
        found = self._runtimes.get(name)
        if found is None:
            raise QuestionError(f"{where}: there is no RuntimeClass {name}")
        if found.overhead.pod_fixed and not spec.get("overhead"):
            spec["overhead"] = found.overhead.pod_fixed
        selector = as_dict(spec.get("nodeSelector"), where)
        spec["nodeSelector"] = {**selector, **found.scheduling.node_selector}
        more = msgspec.to_builtins(found.scheduling.tolerations)
        spec["tolerations"] = [*(spec.get("tolerations") or []), *more]

    def _default_requests(self, namespace: str) -> Mapping[str, str]:
        defaults: dict[str, str] = {}
        for each in self._limits:
            if each.metadata.namespace == namespace:
                for item in each.spec.limits:
                    if item.type == "Container":
                        defaults |= {**item.default, **item.default_request}
        return defaults


def _only_on(pod: Pod, node_name: str) -> Pod:
    """A DaemonSet's pod for one node, which its required node affinity names."""
    named = NodeSelectorTerm(match_fields=(Requirement("metadata.name", "In", (node_name,)),))
    affinity = msgspec.structs.replace(
        pod.spec.affinity.node_affinity or NodeAffinity(),
        required_during_scheduling_ignored_during_execution=NodeSelector((named,)),
    )
    name = f"{pod.metadata.name}-{node_name}"
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(pod.metadata, name=name, uid=f"{pod.metadata.uid}-{node_name}"),
        spec=msgspec.structs.replace(
            pod.spec, affinity=msgspec.structs.replace(pod.spec.affinity, node_affinity=affinity)
        ),
    )
