"""What the API server makes of a new pod: defaults, and reasons to refuse it.

Sources: pkg/apis/core/v1/defaults.go; the admission plugins Priority, LimitRanger, ResourceQuota,
RuntimeClass, NamespaceLifecycle and DefaultTolerationSeconds.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from reprlib import repr as short

import msgspec

from lib.kube.objects import Json, Namespace, ObjectMeta, Pod
from lib.kube.quantity import Quantity
from lib.questions.errors import QuestionError
from lib.questions.limits import LimitRange, items_of, refusals, set_defaults
from lib.questions.manifests import Workload, convert
from lib.questions.pod_templates import as_dict
from lib.questions.quota import Charged, Quotas, ResourceQuota
from lib.questions.snapshot import PriorityClass, RuntimeClass, Snapshot
from lib.scheduling.text import listed

SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

NO_PRIORITY_CLASS = PriorityClass(ObjectMeta(name=""))
"""The priority of pods that name no class, if no class is the global default."""

DEFAULT_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints with the effect NoExecute that every pod tolerates for some time."""

SECURITY_LEVEL = "pod-security.kubernetes.io/enforce"
"""The label of a namespace that says which pods it refuses, by the Pod Security Standards."""


class NotAdmittedError(Exception):
    """The API server would refuse a pod; the text says why."""


@dataclass(eq=False)
class ServerSaid:
    """What the API server said of manifests in a dry run; the names are `Deployment default/web`.

    refused: by name, its words. specs: by workload, the spec of its pods as it would store it. to_come: by
    workload, the fields that name what is still to come. unknown: what it wasn't asked, and why. unsure:
    whether that could well be a refusal. unchanged: the workloads whose
    pods stay as they are.
    """

    refused: dict[str, str] = field(default_factory=dict)
    specs: dict[str, Json] = field(default_factory=dict)
    to_come: dict[str, Json] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    unchanged: set[str] = field(default_factory=set)
    unsure: bool = False


NOTHING_SAID = ServerSaid()


class Admission:
    """Completes and checks new pods, as far as the cluster's objects say how."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._priorities = {
            priority_class.metadata.name: priority_class for priority_class in snapshot.of(PriorityClass)
        }
        self._runtimes = {
            runtime_class.metadata.name: runtime_class for runtime_class in snapshot.of(RuntimeClass)
        }
        self._limits = snapshot.of(LimitRange)
        self._namespaces = {namespace.metadata.name for namespace in snapshot.of(Namespace)}
        self._quotas = Quotas(snapshot.of(ResourceQuota))
        self._charged: dict[Workload, Charged] = {}

    def refusal(self, workload: Workload, body: Json, *, admitted: bool) -> str:
        """Charge quotas for a pod; or, in the API server's words, why it refuses it, "" if it doesn't.

        admitted: whether the API server has said that it would take one such pod.
        """
        if not admitted and self._namespaces and workload.namespace not in self._namespaces:
            return f'namespaces "{workload.namespace}" not found'
        charged = self._charged.get(workload)
        if charged is None:
            charged = self._charged[workload] = Charged(body["spec"], convert(body, Pod, str(workload)))
        limits = [] if admitted else items_of(self._limits, workload.namespace)
        if against := [*refusals(charged.containers.values(), charged.pod, limits)]:
            return f"pods are forbidden: {', '.join(against)}"
        return self._quotas.refusal(charged)

    def complete(self, spec: Json, workload: Workload) -> None:
        """Add to a pod's spec what it doesn't say. NotAdmittedError when the API server would refuse it."""
        where = str(workload)
        self.set_priority(spec)
        self.set_runtime(spec, where)
        limits = items_of(self._limits, workload.namespace)
        for key in ("containers", "initContainers"):
            containers = spec.get(key) or []
            if not isinstance(containers, list):
                raise QuestionError(f"{where}: spec.{key} is not a list")
            spec[key] = [as_dict(container, where) for container in containers]
            for container in spec[key]:
                resources = as_dict(container.get("resources"), where)
                for name in ("limits", "requests"):
                    resources[name] = as_dict(resources.get(name), where)
                container["resources"] = resources
                set_defaults(resources, limits)
                if spec.get("hostNetwork"):
                    for port in container.get("ports") or ():
                        port["hostPort"] = port.get("hostPort") or port.get("containerPort") or 0
        added = [{"key": key, "operator": "Exists", "effect": "NoExecute"} for key in DEFAULT_TOLERATIONS]
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *added]

    def set_priority(self, spec: Json) -> None:
        """As the admission plugin Priority: plugin/pkg/admission/priority/admission.go."""
        name = spec.get("priorityClassName")
        found: PriorityClass | None
        if not name:
            usual = [priority for priority in self._priorities.values() if priority.global_default]
            found = min(usual, key=lambda priority: priority.value, default=NO_PRIORITY_CLASS)
        elif name in SYSTEM_PRIORITIES:
            found = PriorityClass(ObjectMeta(name=name), SYSTEM_PRIORITIES[name])
        else:
            found = self._priorities.get(name)
            if found is None:
                raise NotAdmittedError(f"there is no PriorityClass {name}")
        computed = {"priority": found.value, "preemptionPolicy": found.preemption_policy}
        for key, value in computed.items():
            if spec.get(key, value) != value:
                raise NotAdmittedError(
                    f"spec.{key} is {short(spec[key])}, but "
                    f"{f'PriorityClass {name}' if name else 'a pod without a priorityClassName'} has {value}"
                )
        spec |= {**computed, "priorityClassName": found.metadata.name}

    def set_runtime(self, spec: Json, where: str) -> None:
        """As the admission plugin RuntimeClass: plugin/pkg/admission/runtimeclass/admission.go."""
        name, own = spec.get("runtimeClassName"), spec.get("overhead")
        found = self._runtimes.get(name) if name else RuntimeClass(ObjectMeta(name=""))
        if found is None:
            raise NotAdmittedError(f"there is no RuntimeClass {name}")
        fixed = found.overhead.pod_fixed
        if own and convert(own, dict[str, Quantity], where) != fixed:
            raise NotAdmittedError(
                f"spec.overhead doesn't match that of RuntimeClass {name}"
                if fixed
                else "spec.overhead is set, but no RuntimeClass gives the pod one"
            )
        if fixed:
            spec["overhead"] = fixed
        selector = as_dict(spec.get("nodeSelector"), where)
        for key, value in found.scheduling.node_selector.items():
            if selector.setdefault(key, value) != value:
                raise NotAdmittedError(
                    f"spec.nodeSelector[{key}] is {short(selector[key])}, but RuntimeClass {name} has {value}"
                )
        more = msgspec.to_builtins(found.scheduling.tolerations)
        spec |= {"nodeSelector": selector, "tolerations": [*(spec.get("tolerations") or []), *more]}


def not_asked(workloads: Iterable[Workload], snapshot: Snapshot, why: str) -> ServerSaid:
    """What isn't known of some workloads, if the API server can't be asked."""
    said = ServerSaid()
    enforced = {
        namespace.metadata.name: namespace.metadata.labels.get(SECURITY_LEVEL, "")
        for namespace in snapshot.of(Namespace)
    }
    for namespace in dict.fromkeys(workload.namespace for workload in workloads):
        if enforced.get(namespace, "") not in ("", "privileged"):
            said.unsure = True
            said.unknown.append(
                f"whether namespace {namespace} admits these pods: it enforces the Pod Security level "
                f"{enforced[namespace]}, and {why}"
            )
    if not said.unknown:
        objects = () if snapshot.of(Namespace) else ("namespaces", "quotas", "limit ranges")
        reasons = listed((*objects, "checks of volumes and probes", "admission webhooks", "policies"))
        said.unknown.append(f"what {reasons} would refuse: {why}")
    return said
