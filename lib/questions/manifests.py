"""Manifests of pods that aren't there yet: what the API server and the controllers would make of them.

Sources: pkg/apis/core/v1/defaults.go; the admission plugins Priority, LimitRanger, RuntimeClass and
DefaultTolerationSeconds; pkg/controller/daemon/util/daemonset_util.go for what DaemonSets add.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import yaml

from lib.kube.objects import (
    UNREADABLE,
    ControllerSpec,
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    OwnerReference,
    Pod,
    ReplicaSet,
    ReplicationController,
    Requirement,
    ServiceSpec,
    StatefulSet,
    decode_hook,
)
from lib.kube.selectors import untolerated
from lib.questions.files import KINDS
from lib.questions.snapshot import LimitRange, PriorityClass, RuntimeClass, Snapshot
from lib.questions.text import QuestionError, count, listed
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.node_affinity import wants
from lib.scheduling.plugins.taint_toleration import REPELLING

Json = dict[str, Any]

MAIN_SCHEDULER = "default-scheduler"

SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

DEFAULT_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints with the effect NoExecute that every pod tolerates for a while."""

DAEMON_TOLERATIONS = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)

TEMPLATE_HASH = "pod-template-hash"
"""The label by which the pods of a Deployment's versions are told apart."""

NEW_HASH = "new"
"""Stands for the hash of a version that isn't there yet."""

_OWNERS = {"Deployment": "ReplicaSet", "CronJob": "Job"}
"""What makes the pods of a kind that doesn't make them itself."""


@dataclass(frozen=True, eq=False)
class Workload:
    """Pods alike. replicas: how many; None for a DaemonSet, which has one on each node that it means."""

    kind: str
    namespace: str
    name: str
    template: Json
    replicas: int | None
    selector: LabelSelector | None = None

    def __str__(self) -> str:
        """`Deployment default/web`."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def uid(self) -> str:
        """The uid of what owns its pods, which is no other's."""
        return f"uid-of-new-{self.kind}-{self.namespace}-{self.name}"

    @property
    def owner(self) -> OwnerReference | None:
        """What owns its pods: itself, or what it makes; None of a pod alone."""
        if self.kind == "Pod":
            return None
        kind = _OWNERS.get(self.kind, self.kind)
        api_version = {"Job": "batch/v1", "ReplicationController": "v1"}.get(kind, "apps/v1")
        return OwnerReference(kind, self.name, self.uid, api_version, controller=True)


@dataclass(frozen=True)
class NewPod:
    """A pod of a workload; the only node that it may go to, if it is a DaemonSet's."""

    workload: Workload
    pod: Pod
    node_name: str = ""


def read_manifests(files: Sequence[Path], namespace: str) -> list[Json]:
    """The objects in some files of YAML or JSON, "-" being standard input; those in Lists, too.

    Objects without a namespace get this one. QuestionError when a file can't be read.
    """
    objects = []
    for file in files:
        try:
            text = sys.stdin.read() if str(file) == "-" else file.read_text()
            documents = list(yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            reason = getattr(error, "strerror", None) or " ".join(str(error).split())
            raise QuestionError(f"{file}: {reason}") from error
        for document in documents:
            for each in _flat(document, file):
                each["metadata"] = {"namespace": namespace, **_dict(each.get("metadata"), file)}
                objects.append(each)
    return objects


def _flat(document: Any, file: Path) -> Iterator[Json]:
    if document is None:
        return
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise QuestionError(f"{file}: holds something that is no Kubernetes object: it has no kind")
    if document["kind"].endswith("List") and isinstance(document.get("items"), list):
        for each in document["items"]:
            yield from _flat(each, file)
    else:
        yield document


def _dict(value: Any, where: object) -> Json:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise QuestionError(f"{where}: {value!r} stands where an object should")
    return {key: each for key, each in value.items() if each is not None}


# --- workloads --------------------------------------------------------------------------------------------


def workloads_in(objects: Sequence[Json], snapshot: Snapshot, replicas: int | None = None) -> list[Workload]:
    """The workloads among some objects; what else decides something is added to the snapshot.

    replicas: so many of each, whatever it says. QuestionError when there is none, or something is malformed.
    """
    found = []
    for each in objects:
        workload = _workload(each, replicas)
        if workload:
            found.append(workload)
        elif each["kind"] in KINDS:
            _put(snapshot, each)
    if not found:
        kinds = sorted({each["kind"] for each in objects})
        raise QuestionError(
            f"there are no pods in what was given{f': only {listed(kinds)}' if kinds else ''}"
        )
    for workload in found:
        _note_existing(snapshot, workload)
        if workload.selector:
            _add_controller(snapshot, workload)
    return found


def _workload(each: Json, replicas: int | None) -> Workload | None:
    kind = each["kind"]
    where = f"{kind} {each['metadata'].get('name') or '?'}"
    spec = _dict(each.get("spec"), where)
    if kind == "CronJob":
        spec = _dict(_dict(spec.get("jobTemplate"), where).get("spec"), where)
    template = each if kind == "Pod" else spec.get("template")
    if not isinstance(template, dict) or "containers" not in _dict(template.get("spec"), where):
        return None
    metadata = each["metadata"]
    name = metadata.get("name") or metadata.get("generateName", "").rstrip("-")
    if not isinstance(name, str) or not name:
        raise QuestionError(f"{kind}: has no metadata.name")
    number = replicas
    if kind == "DaemonSet":
        number = None
    elif number is None:
        number = _replicas(kind, spec, where)
    selector = None
    if kind in ("Deployment", "ReplicaSet", "StatefulSet") and spec.get("selector"):
        selector = _convert(spec["selector"], LabelSelector, where)
        if kind == "Deployment":  # its ReplicaSet's selects the pods of this version only
            selector.match_labels = {**selector.match_labels, TEMPLATE_HASH: NEW_HASH}
    elif kind == "ReplicationController" and spec.get("selector"):
        selector = LabelSelector(_dict(spec["selector"], where))
    return Workload(kind, str(metadata["namespace"]), name, template, number, selector)


def _replicas(kind: str, spec: Json, where: str) -> int:
    if kind in ("Pod", "PodTemplate"):
        return 1
    number = spec.get("replicas", 1)
    if kind in ("Job", "CronJob"):
        number = spec.get("parallelism", 1)
        completions = spec.get("completions", number)
        if isinstance(number, int) and isinstance(completions, int):
            number = min(number, completions)
    if not isinstance(number, int) or number < 0:
        raise QuestionError(f"{where}: {number!r} is no number of replicas")
    return number


def _add_controller(snapshot: Snapshot, workload: Workload) -> None:
    """Have a snapshot know what owns a workload's pods, as pods of one owner are spread by default."""
    metadata = ObjectMeta(name=workload.name, namespace=workload.namespace, uid=workload.uid)
    selector = workload.selector or LabelSelector()
    if workload.kind == "ReplicationController":
        old = ReplicationController(ServiceSpec(selector.match_labels), metadata)
        snapshot.of(ReplicationController).append(old)
    elif workload.kind == "StatefulSet":
        snapshot.of(StatefulSet).append(StatefulSet(ControllerSpec(selector), metadata))
    else:
        snapshot.of(ReplicaSet).append(ReplicaSet(ControllerSpec(selector), metadata))


def _put(snapshot: Snapshot, each: Json) -> None:
    """Add an object, in the place of one of its name."""
    kind = KINDS[each["kind"]]
    new: Any = _convert(each, kind, f"{each['kind']} {each['metadata'].get('name') or '?'}")

    def key(metadata: ObjectMeta) -> tuple[str, str]:
        return metadata.namespace, metadata.name

    others: list[Any] = snapshot.of(kind)
    others[:] = [other for other in others if key(other.metadata) != key(new.metadata)]
    others.append(new)


def _note_existing(snapshot: Snapshot, workload: Workload) -> None:
    """Say so if pods of a workload are there already: its new ones come on top."""
    if workload.owner is None:
        return
    pattern = re.escape(workload.name) + ("-[^-]+" if workload.kind in _OWNERS else "")
    there = [
        pod
        for pod in snapshot.of(Pod)
        if pod.metadata.namespace == workload.namespace
        for owner in pod.metadata.owner_references
        if owner.controller and owner.kind == workload.owner.kind and re.fullmatch(pattern, owner.name)
    ]
    if there:
        pods = count(len(there), "pod")
        snapshot.note(f"{workload} is there already with {pods}; they stay, and the new ones come on top")


# --- pods -------------------------------------------------------------------------------------------------


class PodMaker:
    """Makes pods of workloads, as they would come to be in a cluster."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._priorities = {each.metadata.name: each for each in snapshot.of(PriorityClass)}
        self._runtimes = {each.metadata.name: each for each in snapshot.of(RuntimeClass)}
        self._limits = snapshot.of(LimitRange)

    def pods_of(self, workload: Workload, first: int = 1) -> Iterator[NewPod]:
        """The pods of a workload that is no DaemonSet, numbered from `first`."""
        body = self.body_of(workload)
        number = workload.replicas or 0
        alone = workload.kind == "Pod" and number == 1 and first == 1
        start = first - 1 if workload.kind == "StatefulSet" else first
        for i in range(start, start + number):
            name = workload.name if alone else f"{workload.name}-{i}"
            yield NewPod(workload, self.pod_named(workload, body, name))

    def daemon_pods_of(self, workload: Workload, nodes: Iterable[NodeInfo]) -> Iterator[NewPod]:
        """The pods of a DaemonSet: one for each node that it means, and that it tolerates the taints of."""
        body = self.body_of(workload)
        like = self.pod_named(workload, body, workload.name)
        for node in nodes:
            if wants(like, node) and not untolerated(node.taints, like.spec.tolerations, REPELLING):
                yield NewPod(workload, _only_on(like, node.name), node.name)

    def pod_named(self, workload: Workload, body: Json, name: str) -> Pod:
        """A pod of a workload."""
        metadata = {**body["metadata"], "name": name, "uid": f"{workload.uid}-{name}"}
        pod: Pod = _convert({**body, "metadata": metadata}, Pod, str(workload))
        return pod

    def body_of(self, workload: Workload) -> Json:
        """What all pods of a workload have in common, with all defaults filled in."""
        template = workload.template
        where = str(workload)
        spec = deepcopy(_dict(template.get("spec"), where))
        metadata = _dict(template.get("metadata"), where)
        labels = _dict(metadata.get("labels"), where)
        if workload.kind == "Deployment":
            labels.setdefault(TEMPLATE_HASH, NEW_HASH)
        spec.setdefault("schedulerName", MAIN_SCHEDULER)
        self._admit(spec, workload)
        head: Json = {
            "namespace": workload.namespace,
            "labels": labels,
            "annotations": _dict(metadata.get("annotations"), where),
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
                raise QuestionError(f"{where}: spec.{key} is no list")
            spec[key] = [_dict(each, where) for each in containers]
            for each in spec[key]:
                each["resources"] = resources = _dict(each.get("resources"), where)
                limits = _dict(resources.get("limits"), where)
                resources["requests"] = {
                    **defaults,
                    **limits,
                    **_dict(resources.get("requests"), where),
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
        name = spec.get("priorityClassName")
        if not name:
            found = next((each for each in self._priorities.values() if each.global_default), None)
        elif name in SYSTEM_PRIORITIES:
            found = PriorityClass(ObjectMeta(name=name), SYSTEM_PRIORITIES[name])
        else:
            found = self._priorities.get(name)
            if found is None:
                raise QuestionError(f"{where}: there is no PriorityClass {name}")
        if found:
            spec["priority"] = found.value
            spec.setdefault("preemptionPolicy", found.preemption_policy)

    def _set_runtime(self, spec: Json, where: str) -> None:
        name = spec.get("runtimeClassName")
        if not name:
            return
        found = self._runtimes.get(name)
        if found is None:
            raise QuestionError(f"{where}: there is no RuntimeClass {name}")
        if found.overhead.pod_fixed and not spec.get("overhead"):
            spec["overhead"] = found.overhead.pod_fixed
        selector = _dict(spec.get("nodeSelector"), where)
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
    """A DaemonSet's pod for one node: that it names by its required node affinity."""
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


def _convert(body: Any, kind: Any, where: str) -> Any:
    try:
        return msgspec.convert(body, kind, dec_hook=_decode)
    except UNREADABLE as error:
        raise QuestionError(f"{where}: {error}") from error


def _decode(kind: type, raw: Any) -> Any:
    return raw if isinstance(raw, kind) else decode_hook(kind, raw)
