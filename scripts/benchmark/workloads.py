"""The workloads that schedulers are compared by: one table, in the shape of Kubernetes' own benchmark.

Names, pods and nodes are those of scheduler_perf; the numbers of pods and nodes are our own.

Source: https://github.com/kubernetes/kubernetes/tree/master/test/integration/scheduler_perf, the folders
affinity, default_preemption, dra, misc, topology_spreading and volumes with their performance-config.yaml,
and templates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from scripts.benchmark import devices
from scripts.benchmark.client import Json
from scripts.benchmark.devices import DeviceUse
from scripts.benchmark.objects import BOUND, WAITING
from scripts.benchmark.volumes import claim_and_volume, csi_node, use_of_claim

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

HIGH_PRIORITY = "bench-high-priority"
HIGH_PRIORITY_VALUE = 10
NAMED_NODE = "scheduler-perf-node"


@dataclass(frozen=True)
class Template:
    """The template of a workload's pods. Without cpu they request nothing.

    high_priority: they have the PriorityClass HIGH_PRIORITY.
    """

    cpu: str = "100m"
    labels: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, object] = field(default_factory=dict)
    high_priority: bool = False

    def pod(self, namespace: str, name: str, scheduler_name: str, labels: Mapping[str, str]) -> Json:
        """A pod as the API takes it, with these labels besides its own."""
        amounts = {"cpu": self.cpu, "memory": "500Mi"} if self.cpu else {}
        container: Json = {"name": "pause", "image": "registry.k8s.io/pause:3.10.1"}
        if amounts:
            resources = {"requests": amounts, "limits": amounts}
            container |= {"ports": [{"containerPort": 80}], "resources": resources}
        spec: Json = {"schedulerName": scheduler_name, "containers": [container], **self.spec}
        if self.high_priority:
            spec |= {"priorityClassName": HIGH_PRIORITY, "priority": HIGH_PRIORITY_VALUE}
        metadata = {"namespace": namespace, "name": name, "labels": {**self.labels, **labels}}
        return {"metadata": metadata, "spec": spec}


@dataclass(frozen=True)
class Churn:
    """Changes during the measurement: every `seconds`, a pod that fits on no node is created.

    recreate: also a node without room and a service; the next time all three are deleted.
    """

    seconds: float
    recreate: bool = False


@dataclass(frozen=True)
class Workload:
    """Nodes, pods that run there already (`existing`), and pods whose scheduling is measured.

    zones: the nodes get them in turn. existing_namespaces: the existing pods get them in turn. teams: whether
    all these namespaces have the label `team: devops`. service: the labels that a service selects in the
    namespace of the measured pods. named_node: there is one more node, NAMED_NODE, with room for all of them.
    evicts: whether existing pods are evicted. claims: whether each pod has a claim of its own, bound to a CSI
    volume. devices: what devices the nodes have, and how the pods use them. steady: the measured pods are
    deleted when they are bound, and created anew, with claims of a template.
    """

    name: str
    nodes: int
    existing: int
    measured: int
    template: Template
    existing_template: Template | None = None
    zones: Sequence[str] = ()
    existing_namespaces: Sequence[str] = ("default",)
    namespace: str = "default"
    teams: bool = False
    service: Mapping[str, str] = field(default_factory=dict)
    named_node: bool = False
    churn: Churn | None = None
    evicts: bool = False
    claims: bool = False
    devices: DeviceUse | None = None
    steady: bool = False

    def scaled(self, scale: float) -> "Workload":
        """The same with so many times the nodes and pods, and at least one of each that it has."""
        counts = {name: ceil(getattr(self, name) * scale) for name in ("nodes", "existing", "measured")}
        spaces = self.existing_namespaces[: max(1, ceil(len(self.existing_namespaces) * scale))]
        use = self.devices and replace(self.devices, existing=ceil(self.devices.existing * scale))
        return replace(self, existing_namespaces=spaces, devices=use, **counts)

    @property
    def title(self) -> str:
        """Its name, how many pods run already, and how many are measured."""
        return f"{self.name}, {self.existing:,} + {self.measured:,} pods"

    def node_objects(self) -> list[Json]:
        named = [_node(NAMED_NODE, "", pods="90000")] if self.named_node else []
        zones = self.zones or [""]
        return named + [_node(_node_name(i), zones[i % len(zones)]) for i in range(self.nodes)]

    def namespaces(self) -> list[str]:
        """The namespaces that must exist, each once."""
        return list(dict.fromkeys([*self.existing_namespaces, self.namespace]))

    def existing_pods(self) -> list[Json]:
        """Pods that have a node from the start. Nodes and namespaces get them in turn."""
        template, spaces = self.existing_template or self.template, self.existing_namespaces
        pods = []
        for i in range(self.existing):
            pod = template.pod(spaces[i % len(spaces)], f"existing-{i}", "other", BOUND)
            pod["spec"] |= {"nodeName": _node_name(i % self.nodes), "terminationGracePeriodSeconds": 0}
            pods.append(self._with_claim(pod))
        return pods

    def measured_pods(self, scheduler_name: str) -> list[Json]:
        names = (f"measured-{i}" for i in range(self.measured))
        pods = [self.template.pod(self.namespace, name, scheduler_name, WAITING) for name in names]
        for number, pod in enumerate(pods if self.devices else ()):
            assert self.devices
            pod["spec"] |= devices.use_of_claim(self.devices, number)
        return [self._with_claim(pod) for pod in pods]

    def steady_pods(self, scheduler_name: str, turn: int) -> list[Json]:
        """The measured pods of a turn: their claims are made of a template."""
        names = (f"turn-{turn}-{i}" for i in range(self.measured))
        pods = [self.template.pod(self.namespace, name, scheduler_name, WAITING) for name in names]
        for pod in pods:
            pod["spec"] |= devices.use_of_template()
        return pods

    def device_objects(self) -> list[Json]:
        """Classes, the slices of its nodes, a template, and the claims that have a device from the start."""
        if not self.devices:
            return []
        nodes = [_node_name(i) for i in range(self.nodes)]
        whole = [*devices.of_cluster(self.devices, nodes)]
        if self.steady:
            whole.append(devices.template(self.devices, self.namespace, WAITING))
        return [*whole, *devices.existing_claims(self.devices, nodes, self.namespace)]

    def device_claims(self) -> list[Json]:
        """The claims of the measured pods: each contestant needs new ones."""
        return [*devices.claims_of(self.devices, self.measured_pods(""))] if self.devices else []

    def _with_claim(self, pod: Json) -> Json:
        if self.claims:
            pod["spec"] |= use_of_claim(pod["metadata"]["name"])
        return pod

    def storage_objects(self) -> list[Json]:
        """Claims and volumes of all its pods, and the drivers of its nodes."""
        if not self.claims:
            return []
        bound = [
            each for pod in [*self.existing_pods(), *self.measured_pods("")] for each in claim_and_volume(pod)
        ]
        return [csi_node(_node_name(i)) for i in range(self.nodes)] + bound

    def service_object(self) -> Json | None:
        if not self.service:
            return None
        metadata = {"namespace": self.namespace, "name": "measured"}
        return {"metadata": metadata, "spec": {"selector": dict(self.service), "ports": [{"port": 80}]}}


def _node_name(number: int) -> str:
    return f"perf-{number:05}"


def _node(name: str, zone: str, **amounts: str) -> Json:
    room = {"cpu": "4", "memory": "32Gi", "pods": "110"} | amounts
    labels = {HOSTNAME: name} | ({ZONE: zone} if zone else {})
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok"}
    status = {"capacity": room, "allocatable": room, "conditions": [ready]}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def churn_node(name: str) -> Json:
    """A node on which no pod fits."""
    return _node(name, "", pods="0")


# --- what the pods look like ----------------------------------------------------------------------------

SCHED = ("sched-0", "sched-1")


def _term(key: str, color: str, **where: object) -> Json:
    return {"labelSelector": {"matchLabels": {"color": color}}, "topologyKey": key, **where}


def _required(kind: str, color: str, term: Json) -> Template:
    return Template(labels={"color": color}, spec={"affinity": {kind: {REQUIRED: [term]}}})


def _preferred(kind: str, color: str, term: Json) -> Template:
    weighted = {"weight": 1, "podAffinityTerm": term}
    return Template(labels={"color": color}, spec={"affinity": {kind: {PREFERRED: [weighted]}}})


def _on_nodes(**term: object) -> Template:
    node_affinity = {REQUIRED: {"nodeSelectorTerms": [term]}}
    return Template(spec={"affinity": {"nodeAffinity": node_affinity}})


def _spread(key: str, skew: int, action: str, labels: Mapping[str, str], **policies: str) -> Template:
    selector = {"matchLabels": dict(labels)}
    constraint = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": action, "labelSelector": selector}
    return Template(labels=labels, spec={"topologySpreadConstraints": [constraint | policies]})


DEFAULT = Template()
BARE = Template(cpu="")
LOW_PRIORITY = Template(cpu="900m")
PREEMPTOR = Template(cpu="3", high_priority=True)
UNSCHEDULABLE = Template(cpu="9", high_priority=True)
DEVOPS = {"namespaceSelector": {"matchLabels": {"team": "devops"}}}

ZONE_1 = ("zone1",)
MOONS = ("moon-1", "moon-2", "moon-3")
INIT_NAMESPACES = tuple(f"init-ns-{i}" for i in range(50))
SERVED = {"app": "scheduler-perf"}
BLUE = {"color": "blue"}

# Workloads with the same nodes stand together, so that these are created once.
WORKLOADS = (
    Workload("SchedulingBasic", 5000, 1000, 2000, DEFAULT),
    Workload("Unschedulable", 5000, 100, 1000, DEFAULT, churn=Churn(0.2)),
    Workload("SchedulingWithMixedChurn", 5000, 0, 1000, DEFAULT, churn=Churn(1.0, recreate=True)),
    Workload(
        "SchedulingPodAntiAffinity",
        *(5000, 1000, 1000),
        _required("podAntiAffinity", "green", _term(HOSTNAME, "green", namespaces=SCHED)),
        existing_namespaces=SCHED[:1],
        namespace=SCHED[1],
    ),
    Workload(
        "SchedulingPreferredPodAffinity",
        *(5000, 2000, 1000),
        _preferred("podAffinity", "red", _term(HOSTNAME, "red", namespaces=SCHED)),
        existing_namespaces=SCHED[:1],
        namespace=SCHED[1],
    ),
    Workload(
        "SchedulingPreferredPodAntiAffinity",
        *(5000, 2000, 1000),
        _preferred("podAntiAffinity", "yellow", _term(HOSTNAME, "yellow", namespaces=SCHED)),
        existing_namespaces=SCHED[:1],
        namespace=SCHED[1],
    ),
    Workload(
        "SchedulingDaemonset",
        *(5000, 0, 1000),
        replace(
            _on_nodes(matchFields=[{"key": "metadata.name", "operator": "In", "values": [NAMED_NODE]}]),
            cpu="",
        ),
        named_node=True,
    ),
    Workload(
        "SchedulingRequiredPodAntiAffinityWithNSSelector",
        *(3000, 2000, 500),
        _required("podAntiAffinity", "green", _term(HOSTNAME, "green", **DEVOPS)),
        existing_namespaces=INIT_NAMESPACES,
        namespace="measure-ns-0",
        teams=True,
    ),
    Workload(
        "SchedulingPreferredAntiAffinityWithNSSelector",
        *(3000, 2000, 500),
        _preferred("podAntiAffinity", "yellow", _term(HOSTNAME, "yellow", **DEVOPS)),
        existing_namespaces=INIT_NAMESPACES,
        namespace="measure-ns-0",
        teams=True,
    ),
    Workload("PreemptionBasic", 500, 2000, 500, PREEMPTOR, LOW_PRIORITY, evicts=True),
    Workload(
        "SchedulingPodAffinity",
        *(5000, 2000, 1000),
        _required("podAffinity", "blue", _term(ZONE, "blue", namespaces=SCHED)),
        zones=ZONE_1,
        existing_namespaces=SCHED[:1],
        namespace=SCHED[1],
    ),
    Workload(
        "SchedulingNodeAffinity",
        *(5000, 1000, 1000),
        _on_nodes(matchExpressions=[{"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]}]),
        zones=ZONE_1,
    ),
    Workload(
        "TopologySpreading",
        *(5000, 2000, 1000),
        _spread(ZONE, 5, "DoNotSchedule", BLUE),
        DEFAULT,
        zones=MOONS,
    ),
    Workload(
        "PreferredTopologySpreading",
        *(5000, 2000, 1000),
        _spread(ZONE, 5, "ScheduleAnyway", BLUE),
        DEFAULT,
        zones=MOONS,
    ),
    Workload(
        "DefaultTopologySpreading",
        *(5000, 1000, 1000),
        Template(cpu="", labels=SERVED),
        DEFAULT,
        zones=MOONS,
        namespace="service-ns",
        service=SERVED,
    ),
    Workload("SchedulingCSIPVs", 5000, 1000, 1000, DEFAULT, claims=True),
    Workload("SchedulingWithResourceClaimTemplate", 500, 0, 2500, BARE, devices=DeviceUse(10, existing=2500)),
    Workload(
        "SteadyStateClusterResourceClaimTemplate",
        *(500, 0, 10, BARE),
        devices=DeviceUse(10, existing=2500),
        steady=True,
    ),
    Workload(
        "SchedulingWithResourceClaim", 500, 0, 2500, BARE, devices=DeviceUse(2, sharing=5, existing=500)
    ),
    Workload(
        "SchedulingWithPrioritizedList",
        *(500, 0, 2500, BARE),
        devices=DeviceUse(10, first_available=True, existing=2500),
    ),
)

NAMES = [each.name for each in WORKLOADS]


def chosen(names: Sequence[str], scale: float) -> list[Workload]:
    """The workloads of these names, in the order of the table, with so many times the nodes and pods."""
    return [each.scaled(scale) for each in WORKLOADS if each.name in names]
