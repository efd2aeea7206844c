"""Manifests: the workloads in them, and other objects that decisions depend on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from reprlib import repr as short
from typing import Any, TypeVar

import msgspec
import yaml

from lib.kube.bounded_files import TooMuchError
from lib.kube.kubernetes_yaml import load_documents
from lib.kube.objects import (
    UNREADABLE,
    ControllerSpec,
    Json,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    Pod,
    ReplicaSet,
    ReplicationController,
    ServiceSpec,
    StatefulSet,
    decode_hook,
)
from lib.questions.errors import QuestionError
from lib.questions.files import KINDS, is_of_kubernetes
from lib.questions.manifest_fields import wrong_fields
from lib.questions.manifest_files import content_of
from lib.questions.pod_templates import Template, as_dict, pod_templates
from lib.questions.quota import ResourceQuota, with_status
from lib.questions.snapshot import Snapshot
from lib.questions.subjects import THROUGH, Subject
from lib.scheduling.text import listed, names
from lib.scheduling.workloads import TEMPLATE_HASH

T = TypeVar("T")

NEW_HASH = "new"
"""Used as the hash of a version that doesn't exist yet."""


@dataclass(frozen=True, eq=False)
class Workload:
    """Pods that are alike. replicas: how many; None for a DaemonSet, which has one on each matching node.

    strategy: how its pods are replaced; if it is paused, they aren't. start: the first pod's number.
    existing: its pods that are there. source: the object that they are of, as `JobSet default/batch`.
    """

    kind: str
    namespace: str
    name: str
    template: Json
    replicas: int | None
    selector: LabelSelector | None = None
    claim_templates: tuple[Json, ...] = ()
    strategy: Json = field(default_factory=dict)
    paused: bool = False
    start: int = 1
    existing: tuple[Pod, ...] = ()
    source: str = ""

    def __str__(self) -> str:
        """`Deployment default/web`."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def uid(self) -> str:
        """A unique uid for the owner of its pods."""
        return f"uid-of-new-{self.kind}-{self.namespace}-{self.name}"

    @property
    def owner(self) -> OwnerReference | None:
        """The owner of its pods: the workload itself, or what it creates; None for a single pod."""
        if self.kind == "Pod":
            return None
        kind = THROUGH.get(self.kind.lower(), self.kind)
        api_version = {"Job": "batch/v1", "ReplicationController": "v1"}.get(kind, "apps/v1")
        return OwnerReference(kind, self.name, self.uid, api_version, controller=True)

    @property
    def node_name(self) -> str:
        """The node that its pods name; "" if a scheduler chooses."""
        return as_dict(self.template.get("spec"), self).get("nodeName") or ""

    @property
    def is_rolled_out(self) -> bool:
        """Whether its new pods take the place of those that are there: a quota counts them only once."""
        return bool(self.existing) and self.kind in ("Deployment", "StatefulSet")

    def creates(self, pod: Pod) -> bool:
        """Whether a pod that exists already is one of its pods."""
        meant = Subject(self.namespace, self.kind.lower(), self.name)
        return self.kind != "Pod" and meant.covers(pod)


def read_manifests(files: Sequence[str | Path], namespace: str) -> list[Json]:
    """Read the objects in YAML or JSON files, also those in Lists; "-" is standard input, URLs are fetched.

    Objects without a namespace get this one. QuestionError when a file can't be read, or has fields that
    its kinds don't have.
    """
    objects, unknown = [], []
    for file in files:
        try:
            documents = list(load_documents(content_of(file)))
        except (OSError, TooMuchError, yaml.YAMLError) as error:
            reason = getattr(error, "strerror", None) or " ".join(str(error).split())
            raise QuestionError(f"{file}: {reason}") from error
        for i, document in enumerate(documents, 1):
            where = f"{file}, document {i}" if len(documents) > 1 else str(file)
            for manifest in _flat(document, where):
                manifest["metadata"] = {"namespace": namespace, **as_dict(manifest.get("metadata"), file)}
                objects.append(manifest)
                unknown += [f"{file}: {named(manifest)}: {line}" for line in wrong_fields(manifest)]
    if unknown:
        raise QuestionError(*unknown)
    return objects


def named(manifest: Json) -> str:
    """`Deployment default/web`, of any object that was read."""
    metadata = manifest["metadata"]
    name = metadata.get("name") or str(metadata.get("generateName") or "?").rstrip("-")
    return f"{manifest['kind']} {metadata['namespace']}/{name}"


def _flat(document: Any, where: str) -> Iterator[Json]:
    """The objects in a document. where: its place, for errors."""
    if not isinstance(document, dict):
        raise QuestionError(
            f"{where}: this is not a Kubernetes object, but {_kind_of(document)}: {short(document)}"
        )
    if not isinstance(document.get("kind"), str):
        fields = f"the fields {names([*map(str, document)], 5)}" if document else "no fields"
        raise QuestionError(f"{where}: this is not a Kubernetes object: it has {fields}, but no kind")
    if not isinstance(items := document.get("items"), list):
        yield document
        return
    of_list = {"apiVersion": document.get("apiVersion"), "kind": document["kind"].removesuffix("List")}
    for i, item in enumerate(items):
        if isinstance(item, dict) and isinstance(item.get("items"), list):
            raise QuestionError(f"{where}, items[{i}]: this is a list in a list, which kubectl doesn't take")
        has_kind = not isinstance(item, dict) or "kind" in item or not of_list["kind"]
        yield from _flat(item if has_kind else {**of_list, **item}, f"{where}, items[{i}]")


def _kind_of(value: object) -> str:
    return "a list" if isinstance(value, list) else "a text" if isinstance(value, str) else "a value"


# --- workloads --------------------------------------------------------------------------------------------


def workloads_in(objects: Sequence[Json], snapshot: Snapshot, replicas: int | None = None) -> list[Workload]:
    """The workloads among some objects; other objects that decisions need are added to the snapshot.

    replicas: overrides each workload's number. QuestionError when there is no workload, or one is malformed.
    """
    found = []
    for manifest in objects:
        workloads = [*_workloads(manifest, replicas)]
        found += workloads
        for workload in workloads:
            if manifest["kind"] in ("Job", "CronJob") and manifest["spec"].get("suspend") is True:
                snapshot.note(f"{workload} is suspended: its pods come only when it is resumed")
            if workload.paused:
                snapshot.note(f"{workload} is paused: its new pods come only when it is resumed")
        if (
            not workloads
            and manifest["kind"] in KINDS
            and is_of_kubernetes(manifest["kind"], manifest.get("apiVersion"))
        ):
            put_object(snapshot, manifest)
    if not found:
        kinds = sorted({manifest["kind"] for manifest in objects})
        raise QuestionError(
            f"there are no pods in what was given{f': only {listed(kinds)}' if kinds else ''}"
        )
    found = [replace(workload, existing=tuple(_existing(workload, snapshot))) for workload in found]
    if replicas is None:
        silent = {named(manifest) for manifest in objects if "replicas" not in (manifest.get("spec") or {})}
        found = [
            _as_many_as_there_are(workload) if str(workload) in silent else workload for workload in found
        ]
    for workload in found:
        if workload.selector:
            _add_controller(snapshot, workload)
    return found


def _existing(workload: Workload, snapshot: Snapshot) -> Iterator[Pod]:
    """A workload's pods that are there.

    Only a StatefulSet counts those that are being deleted: a new one comes when the one before has gone.
    """
    for pod in filter(workload.creates, snapshot.of(Pod)):
        if workload.kind == "StatefulSet" or not pod.metadata.deletion_timestamp:
            yield pod


def _as_many_as_there_are(workload: Workload) -> Workload:
    """A workload whose manifest doesn't say how many: another, such as an autoscaler, has."""
    return replace(workload, replicas=len(workload.existing)) if workload.is_rolled_out else workload


def has_pods(manifest: Json) -> bool:
    """Whether an object leads to pods."""
    return any(_workloads(manifest, None))


def custom_resources(objects: Sequence[Json]) -> Iterator[tuple[str, str]]:
    """The name of each custom resource, and a line about it: another program may create pods for it."""
    for manifest in objects:
        group, slash, _ = str(manifest.get("apiVersion") or "").partition("/")
        if slash and "." in group and not group.endswith(".k8s.io") and not has_pods(manifest):
            yield named(manifest), f"which pods {named(manifest)} leads to: it is a custom resource"


def _workloads(manifest: Json, replicas: int | None) -> Iterator[Workload]:
    """The pods that an object leads to: a custom resource may have several pod templates."""
    kind, metadata, source = manifest["kind"], manifest["metadata"], named(manifest)
    where = f"{kind} {metadata.get('name') or '?'}"
    if kind == "Pod":
        templates = (
            [Template(manifest, "", 1)] if "containers" in as_dict(manifest.get("spec"), where) else []
        )
    elif kind.endswith("Policy"):  # it may say what templates of others must be like
        templates = []
    else:
        templates = [
            *pod_templates({key: manifest[key] for key in ("spec", "template") if key in manifest}, where)
        ]
    name = metadata.get("name") or str(metadata.get("generateName") or "").rstrip("-")
    if templates and (not isinstance(name, str) or not name):
        raise QuestionError(f"{kind}: has no metadata.name")
    spec = as_dict(manifest.get("spec"), where) if templates else {}
    selector = None
    if kind in ("Deployment", "ReplicaSet", "StatefulSet") and spec.get("selector"):
        selector = convert(spec["selector"], LabelSelector, where)
        if kind == "Deployment":  # its ReplicaSet's selector is only for the pods of this version
            selector.match_labels = {**selector.match_labels, TEMPLATE_HASH: NEW_HASH}
    elif kind == "ReplicationController" and spec.get("selector"):
        selector = LabelSelector(as_dict(spec["selector"], where))
    claims = tuple(as_dict(template, where) for template in spec.get("volumeClaimTemplates") or ())
    strategy = as_dict(spec.get("updateStrategy" if kind == "StatefulSet" else "strategy"), where)
    for template in templates:
        yield Workload(
            kind,
            str(metadata["namespace"]),
            f"{name}-{template.role}" if len(templates) > 1 and template.role else name,
            template.content,
            None if kind == "DaemonSet" else template.count if replicas is None else replicas,
            selector,
            claims,
            strategy,
            paused=kind == "Deployment" and spec.get("paused") is True,
            start=as_dict(spec.get("ordinals"), where).get("start", 0) if kind == "StatefulSet" else 1,
            source=source,
        )


def _add_controller(snapshot: Snapshot, workload: Workload) -> None:
    """Add the owner of a workload's pods to a snapshot: pods of one owner are spread by default."""
    metadata = ObjectMeta(name=workload.name, namespace=workload.namespace, uid=workload.uid)
    selector = workload.selector or LabelSelector()
    if workload.kind == "ReplicationController":
        old = ReplicationController(metadata, ServiceSpec(selector.match_labels))
        snapshot.of(ReplicationController).append(old)
    elif workload.kind == "StatefulSet":
        snapshot.of(StatefulSet).append(StatefulSet(metadata, ControllerSpec(selector)))
    else:
        snapshot.of(ReplicaSet).append(ReplicaSet(metadata, ControllerSpec(selector)))


CLUSTER_SCOPED = frozenset(
    {
        *("Node", "Namespace", "PriorityClass", "RuntimeClass", "StorageClass"),
        *("PersistentVolume", "CSINode", "CSIDriver", "VolumeAttachment"),
        *("DeviceClass", "ResourceSlice"),
    }
)
"""The kinds whose objects are in no namespace."""


def put_object(snapshot: Snapshot, manifest: Json) -> None:
    """Add an object, or replace the one of the same name."""
    kind = KINDS[manifest["kind"]]
    new: Any = convert(manifest, kind, f"{manifest['kind']} {manifest['metadata'].get('name') or '?'}")
    if manifest["kind"] in CLUSTER_SCOPED:  # it would not be found under the namespace of names without one
        new.metadata.namespace = ""
    if isinstance(new, ResourceQuota):
        new = with_status(new)

    def key(metadata: ObjectMeta) -> tuple[str, str]:
        return metadata.namespace, metadata.name

    others: list[Any] = snapshot.of(kind)
    others[:] = [other for other in others if key(other.metadata) != key(new.metadata)]
    others.append(new)


def convert(body: Any, kind: type[T], where: str) -> T:
    """Decode a part of a manifest as this kind; QuestionError when that fails."""
    try:
        return msgspec.convert(body, kind, dec_hook=_decode)
    except UNREADABLE as error:
        raise QuestionError(f"{where}: {error}") from error


def _decode(kind: type, raw: Any) -> Any:
    return raw if isinstance(raw, kind) else decode_hook(kind, raw)
