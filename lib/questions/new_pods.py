"""New pods of workloads, as controllers create them.

Source: pkg/controller/daemon/util/daemonset_util.go for what DaemonSets add.
"""

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain

import msgspec

from lib.kube.devices import ResourceClaimTemplate
from lib.kube.objects import Json, NodeSelector, NodeSelectorTerm, Pod, Requirement
from lib.kube.pod_validation import Problem, problems_of_labels, problems_of_metadata, problems_of_pod
from lib.kube.selectors import untolerated
from lib.kube.source import MAIN_SCHEDULER
from lib.kube.storage import PersistentVolumeClaim
from lib.questions.admission import NOTHING_SAID, Admission, NotAdmittedError, ServerSaid
from lib.questions.device_claims import add_resource_claims
from lib.questions.manifests import NEW_HASH, Workload, convert
from lib.questions.new_claims import add_claims, claim_volumes
from lib.questions.pod_templates import as_dict
from lib.questions.snapshot import Snapshot
from lib.scheduling.cache import Cache
from lib.scheduling.edits import with_required_nodes
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.plugins.node_affinity import wants
from lib.scheduling.plugins.taint_toleration import REPELLING
from lib.scheduling.workloads import TEMPLATE_HASH

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
    """A pod of a workload; with its only node if it is a DaemonSet's, or names one itself.

    refused: why it can't be created.
    """

    workload: Workload
    pod: Pod
    node_name: str = ""
    refused: str = ""


def runs_on(pod: Pod, node: NodeInfo) -> bool:
    """Whether a DaemonSet has such a pod on a node: if it matches, and the pod tolerates its taints."""
    return wants(pod, node) and not untolerated(pod, node.taints, REPELLING)


class PodMaker:
    """Creates pods of workloads, as they would be in a cluster. Their claims are put into `cache`.

    refused: why the API server would refuse any pod of a workload, by what the cluster's objects say.
    """

    def __init__(self, snapshot: Snapshot, cache: Cache, said: ServerSaid = NOTHING_SAID) -> None:
        self.admission = Admission(snapshot)
        self._cache, self._said = cache, said
        self.refused: dict[Workload, str] = {}
        self._claim_templates = snapshot.of(ResourceClaimTemplate)

    def refusal(self, workload: Workload, body: Json) -> str:
        """Count one more pod of a workload; or why the API server refuses it, "" if it doesn't."""
        is_admitted = str(workload) in self._said.specs
        return self._refused_anyway(workload) or self.admission.refusal(workload, body, admitted=is_admitted)

    def _refused_anyway(self, workload: Workload) -> str:
        """Why the API server refuses a workload or any of its pods, "" if it doesn't."""
        said = (self._said.refused.get(name) for name in (str(workload), workload.source))
        return next(filter(None, said), self.refused.get(workload, ""))

    def pods_of(self, workload: Workload) -> Iterator[NewPod]:
        """The pods of a workload other than a DaemonSet, numbered."""
        body = self.body_of(workload)
        number = workload.replicas or 0
        alone = workload.kind == "Pod" and number == 1
        for i in range(number):
            name = workload.name if alone else f"{workload.name}-{workload.start + i}"
            replaces = workload.is_rolled_out and i < len(workload.existing)
            pod = self.pod_named(workload, body, name)
            if replaces:
                yield NewPod(workload, pod, workload.node_name, self._refused_anyway(workload))
            else:
                yield self._new(workload, pod, body)

    def daemon_pods_of(self, workload: Workload, nodes: Iterable[NodeInfo]) -> Iterator[NewPod]:
        """The pods of a DaemonSet: one for each node that matches and whose taints it tolerates."""
        body = self.body_of(workload)
        like = self.pod_named(workload, body, workload.name)
        for node in nodes:
            if runs_on(like, node) and workload.node_name in ("", node.name):
                pod = self.pod_named(workload, body, f"{workload.name}-{node.name}")
                yield self._new(workload, _only_on(pod, node.name), body, node.name)

    def _new(self, workload: Workload, pod: Pod, body: Json, node_name: str = "") -> NewPod:
        node_name = node_name or workload.node_name
        return NewPod(workload, pod, node_name, self.refusal(workload, body))

    def pod_named(self, workload: Workload, body: Json, name: str) -> Pod:
        """A pod of a workload."""
        metadata = {**body["metadata"], "name": name, "uid": f"{workload.uid}-{name}"}
        spec = body["spec"]
        if volumes := claim_volumes(workload.claim_templates, name):
            spec = {**spec, "volumes": [*(spec.get("volumes") or ()), *volumes]}
        pod = convert({**body, "metadata": metadata, "spec": spec}, Pod, str(workload))
        if pod.spec.volumes:
            templates = [_claim_template(template, str(workload)) for template in workload.claim_templates]
            add_claims(pod, templates, self._ephemeral(spec, workload), self._cache.storage)
        add_resource_claims(pod, self._claim_templates, self._cache)
        return pod

    def _ephemeral(self, spec: Json, workload: Workload) -> dict[str, PersistentVolumeClaim]:
        """By name, the claims of a pod's ephemeral volumes."""
        where, found = str(workload), {}
        for volume in spec["volumes"]:
            if asked := as_dict(volume.get("ephemeral"), where).get("volumeClaimTemplate"):
                found[volume["name"]] = _claim_template(as_dict(asked, where), where)
        return found

    def body_of(self, workload: Workload) -> Json:
        """The common part of all pods of a workload, as the API server stores them."""
        body = template_of(workload)
        asks = str(workload) not in self._said.specs
        wrong = problems_of_template(workload, body) if asks else ""
        try:
            body["spec"] = self._completed(workload, body["spec"])
        except NotAdmittedError as error:
            wrong = wrong or str(error)
        if wrong := wrong or (problems_of_new_pod(workload, body) if asks else ""):
            self.refused[workload] = wrong
            body["spec"] = {}  # perhaps it can't even be decoded
        body["spec"]["nodeName"] = ""
        return body

    def _completed(self, workload: Workload, spec: Json) -> Json:
        name = str(workload)
        if name not in self._said.specs:
            self.admission.complete(spec, workload)
            return spec
        to_come = self._said.to_come[name]
        stored = {**self._said.specs[name], **to_come}
        if "priorityClassName" in to_come:
            del stored["priority"], stored["preemptionPolicy"]
            self.admission.set_priority(stored)
        if "runtimeClassName" in to_come:
            self.admission.set_runtime(stored, name)
        return stored


def problems_of_template(workload: Workload, body: Json) -> str:
    """What the API server says against a workload with such a template; "" if nothing is wrong."""
    if workload.kind == "Pod":
        return ""
    place = "spec.jobTemplate.spec.template" if workload.kind == "CronJob" else "spec.template"
    labels = problems_of_labels(body["metadata"]["labels"], f"{place}.labels")
    return _together(chain(labels, problems_of_pod(body["spec"], f"{place}.spec")))


def problems_of_new_pod(workload: Workload, body: Json) -> str:
    """What the API server says against a pod with its defaults; "" if nothing is wrong."""
    named = {**body["metadata"], **({"name": workload.name} if workload.kind == "Pod" else {})}
    return _together(chain(problems_of_metadata(named), problems_of_pod(body["spec"])))


def _together(problems: Iterator[Problem]) -> str:
    try:
        return "; ".join(map(str, problems))
    except (AttributeError, TypeError, ValueError):
        return ""  # a value of another type: what decodes the pod says which


def _claim_template(template: Json, where: str) -> PersistentVolumeClaim:
    body = {**template, "kind": "PersistentVolumeClaim", "metadata": template.get("metadata") or {}}
    return convert(body, PersistentVolumeClaim, where)


def template_of(workload: Workload) -> Json:
    """The common part of all pods of a workload, as its controller asks the API server for them."""
    where = str(workload)
    spec = deepcopy(as_dict(workload.template.get("spec"), where))
    metadata = as_dict(workload.template.get("metadata"), where)
    labels = as_dict(metadata.get("labels"), where)
    if workload.kind == "Deployment":
        labels.setdefault(TEMPLATE_HASH, NEW_HASH)
    spec.setdefault("schedulerName", MAIN_SCHEDULER)
    if workload.kind == "DaemonSet":
        added = list(DAEMON_TOLERATIONS)
        if spec.get("hostNetwork"):
            added.append(("node.kubernetes.io/network-unavailable", "NoSchedule"))
        tolerations = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in added]
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *tolerations]
    head: Json = {
        "namespace": workload.namespace,
        "labels": labels,
        "annotations": as_dict(metadata.get("annotations"), where),
    }
    if workload.owner:
        head["ownerReferences"] = [msgspec.to_builtins(workload.owner)]
    return {"kind": "Pod", "metadata": head, "spec": spec}


def _only_on(pod: Pod, node_name: str) -> Pod:
    """A DaemonSet's pod for one node, which its required node affinity names."""
    named = NodeSelectorTerm(match_fields=(Requirement("metadata.name", "In", (node_name,)),))
    return with_required_nodes(pod, NodeSelector((named,)))
