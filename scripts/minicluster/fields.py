"""The fields that the API knows, for `fieldValidation`: a misspelt field is an error.

Written from the API reference (https://kubernetes.io/docs/reference/kubernetes-api/). A line is a type and
its fields; `field:Type` goes on into that type, `field:[Type]` into each item. The content of a
field without a type isn't checked: volumes, probes and the like are stored as they are sent.
"""

import json
from typing import Any

Object = dict[str, Any]

_TYPES = """
ObjectMeta: name generateName namespace selfLink uid resourceVersion generation creationTimestamp
    deletionTimestamp deletionGracePeriodSeconds labels annotations ownerReferences finalizers managedFields
TypedObject: apiVersion kind metadata:ObjectMeta
Pod: spec:PodSpec status
PodTemplateSpec: metadata:ObjectMeta spec:PodSpec
PodSpec: volumes:[Volume] initContainers:[Container] containers:[Container] ephemeralContainers
    restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy nodeSelector
    serviceAccountName serviceAccount automountServiceAccountToken nodeName hostNetwork hostPID hostIPC
    shareProcessNamespace securityContext imagePullSecrets hostname subdomain affinity:Affinity
    schedulerName tolerations:[Toleration] hostAliases priorityClassName priority dnsConfig readinessGates
    runtimeClassName enableServiceLinks preemptionPolicy overhead
    topologySpreadConstraints:[TopologySpreadConstraint] setHostnameAsFQDN os hostUsers
    schedulingGates:[SchedulingGate] resourceClaims resources:ResourceRequirements hostnameOverride
    workloadRef schedulingGroup
Container: name image command args workingDir ports:[ContainerPort] envFrom env:[EnvVar]
    resources:ResourceRequirements resizePolicy restartPolicy restartPolicyRules volumeMounts:[VolumeMount]
    volumeDevices livenessProbe readinessProbe startupProbe lifecycle terminationMessagePath
    terminationMessagePolicy imagePullPolicy securityContext stdin stdinOnce tty
ContainerPort: name hostPort containerPort protocol hostIP
EnvVar: name value valueFrom
VolumeMount: name readOnly recursiveReadOnly mountPath subPath mountPropagation subPathExpr
ResourceRequirements: limits requests claims
Volume: name hostPath emptyDir gcePersistentDisk awsElasticBlockStore gitRepo secret nfs iscsi glusterfs
    persistentVolumeClaim rbd flexVolume cinder cephfs flocker downwardAPI fc azureFile configMap
    vsphereVolume quobyte azureDisk photonPersistentDisk projected portworxVolume scaleIO storageos csi
    ephemeral image
Affinity: nodeAffinity:NodeAffinity podAffinity:PodAffinity podAntiAffinity:PodAffinity
NodeAffinity: requiredDuringSchedulingIgnoredDuringExecution:NodeSelector
    preferredDuringSchedulingIgnoredDuringExecution:[PreferredSchedulingTerm]
NodeSelector: nodeSelectorTerms:[NodeSelectorTerm]
NodeSelectorTerm: matchExpressions:[Requirement] matchFields:[Requirement]
Requirement: key operator values
PreferredSchedulingTerm: weight preference:NodeSelectorTerm
PodAffinity: requiredDuringSchedulingIgnoredDuringExecution:[PodAffinityTerm]
    preferredDuringSchedulingIgnoredDuringExecution:[WeightedPodAffinityTerm]
WeightedPodAffinityTerm: weight podAffinityTerm:PodAffinityTerm
PodAffinityTerm: labelSelector:LabelSelector namespaces topologyKey namespaceSelector:LabelSelector
    matchLabelKeys mismatchLabelKeys
LabelSelector: matchLabels matchExpressions:[Requirement]
Toleration: key operator value effect tolerationSeconds
TopologySpreadConstraint: maxSkew topologyKey whenUnsatisfiable labelSelector:LabelSelector minDomains
    nodeAffinityPolicy nodeTaintsPolicy matchLabelKeys
SchedulingGate: name
Node: spec:NodeSpec status
NodeSpec: podCIDR podCIDRs providerID unschedulable taints:[Taint] configSource externalID
Taint: key value effect timeAdded
Namespace: spec status
Binding: target
Event: involvedObject reason message source firstTimestamp lastTimestamp count type eventTime series action
    related reportingComponent reportingInstance
Deployment: spec:DeploymentSpec status
DeploymentSpec: replicas selector:LabelSelector template:PodTemplateSpec strategy:DeploymentStrategy
    minReadySeconds revisionHistoryLimit paused progressDeadlineSeconds
DeploymentStrategy: type rollingUpdate:RollingUpdate
RollingUpdate: maxUnavailable maxSurge
ReplicaSet: spec:ReplicaSetSpec status
ReplicaSetSpec: replicas minReadySeconds selector:LabelSelector template:PodTemplateSpec
PodDisruptionBudget: spec:PodDisruptionBudgetSpec status
PodDisruptionBudgetSpec: minAvailable selector:LabelSelector maxUnavailable unhealthyPodEvictionPolicy
PriorityClass: value globalDefault description preemptionPolicy
Lease: spec:LeaseSpec
LeaseSpec: holderIdentity leaseDurationSeconds acquireTime renewTime leaseTransitions strategy
    preferredHolder
"""

Type = dict[str, str]  # a field and the type of its content, "" for any


def _parse(text: str) -> dict[str, Type]:
    types: dict[str, Type] = {}
    for entry in text.replace("\n    ", " ").strip().splitlines():
        name, _, fields = entry.partition(": ")
        types[name] = {field: kind for field, _, kind in (item.partition(":") for item in fields.split())}
    return types


TYPES = _parse(_TYPES)


def without_unknown(kind: str, content: Object) -> tuple[Object, list[str]]:
    """The object without unknown fields, and the paths of these.

    ValueError for a value that should be a list or an object, and isn't.
    """
    unknown: list[str] = []
    known = _checked(TYPES.get(kind, _anything(content)) | TYPES["TypedObject"], content, "", unknown)
    return known, unknown


def unknown_fields(kind: str, content: Object) -> list[str]:
    try:
        return without_unknown(kind, content)[1]
    except ValueError:  # decoding the object reports that
        return []


def _anything(content: Object) -> Type:
    """A kind that isn't listed may have any field."""
    return dict.fromkeys(content, "")


def _checked(fields: Type, content: Object, path: str, unknown: list[str]) -> Object:
    known = {}
    for field, value in content.items():
        if field not in fields:
            unknown.append(f"{path}{field}")
            continue
        kind = fields[field]
        inner = TYPES.get(kind.strip("[]"))
        if inner and value is not None:
            here, is_list = f"{path}{field}", kind.startswith("[")
            items = value if is_list else [value]
            if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
                raise ValueError(f"cannot unmarshal {json.dumps(value)} into {here}, which is {_said(kind)}")
            paths = [f"{here}[{at}]." for at in range(len(items))] if is_list else [f"{here}."]
            inside = [_checked(inner, item, path, unknown) for item, path in zip(items, paths, strict=True)]
            value = inside if is_list else inside[0]
        known[field] = value
    return known


def _said(kind: str) -> str:
    return f"a list of {kind.strip('[]')}" if kind.startswith("[") else f"an object {kind}"
