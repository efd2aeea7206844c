"""Manifests: the workloads in them, and other objects that decisions depend on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache
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
from lib.questions.files import KINDS
from lib.questions.manifest_files import content_of
from lib.questions.quota import ResourceQuota, with_status
from lib.questions.snapshot import Snapshot
from lib.questions.subjects import THROUGH, Subject
from lib.scheduling.text import listed, names

T = TypeVar("T")

TEMPLATE_HASH = "pod-template-hash"
"""The label that differs between the pods of a Deployment's versions."""

NEW_HASH = "new"
"""Used as the hash of a version that doesn't exist yet."""


@dataclass(frozen=True, eq=False)
class Workload:
    """Pods that are alike. replicas: how many; None for a DaemonSet, which has one on each matching node.

    strategy: how its pods are replaced. existing: its pods that are there already.
    """

    kind: str
    namespace: str
    name: str
    template: Json
    replicas: int | None
    selector: LabelSelector | None = None
    claim_templates: tuple[Json, ...] = ()
    strategy: Json = field(default_factory=dict)
    existing: tuple[Pod, ...] = ()

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
            for each in _flat(document, where):
                each["metadata"] = {"namespace": namespace, **as_dict(each.get("metadata"), file)}
                objects.append(each)
                unknown += [f"{file}: {named(each)}: {line}" for line in misspelt(each)]
    if unknown:
        raise QuestionError(*unknown)
    return objects


def named(each: Json) -> str:
    """`Deployment default/web`, of any object that was read."""
    metadata = each["metadata"]
    name = metadata.get("name") or str(metadata.get("generateName") or "?").rstrip("-")
    return f"{each['kind']} {metadata['namespace']}/{name}"


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
    for i, each in enumerate(items):
        if isinstance(each, dict) and isinstance(each.get("items"), list):
            raise QuestionError(f"{where}, items[{i}]: this is a list in a list, which kubectl doesn't take")
        has_kind = not isinstance(each, dict) or "kind" in each or not of_list["kind"]
        yield from _flat(each if has_kind else {**of_list, **each}, f"{where}, items[{i}]")


def _kind_of(value: object) -> str:
    return "a list" if isinstance(value, list) else "a text" if isinstance(value, str) else "a value"


def as_dict(value: Any, where: object) -> Json:
    """An object of a manifest, without null fields; QuestionError when it isn't an object."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise QuestionError(f"{where}: {short(value)} stands where an object should")
    return {key: each for key, each in value.items() if each is not None}


# --- workloads --------------------------------------------------------------------------------------------


def workloads_in(objects: Sequence[Json], snapshot: Snapshot, replicas: int | None = None) -> list[Workload]:
    """The workloads among some objects; other objects that decisions need are added to the snapshot.

    replicas: overrides each workload's number. QuestionError when there is no workload, or one is malformed.
    """
    found = []
    for each in objects:
        workload = _workload(each, replicas)
        if workload:
            found.append(workload)
            if (
                each["kind"] in ("Job", "CronJob")
                and as_dict(each.get("spec"), workload).get("suspend") is True
            ):
                snapshot.note(f"{workload} is suspended: its pods come only when it is resumed")
        elif each["kind"] in KINDS:
            put_object(snapshot, each)
    if not found:
        kinds = sorted({each["kind"] for each in objects})
        raise QuestionError(
            f"there are no pods in what was given{f': only {listed(kinds)}' if kinds else ''}"
        )
    found = [replace(each, existing=tuple(filter(each.creates, snapshot.of(Pod)))) for each in found]
    for workload in found:
        if workload.selector:
            _add_controller(snapshot, workload)
    return found


def custom_resources(objects: Sequence[Json]) -> Iterator[tuple[str, str]]:
    """The name of each custom resource, and a line about it: another program may create pods for it."""
    for each in objects:
        group, slash, _ = str(each.get("apiVersion") or "").partition("/")
        if slash and "." in group and not group.endswith(".k8s.io") and not _workload(each, None):
            yield named(each), f"which pods {named(each)} leads to: it is a custom resource"


def _workload(each: Json, replicas: int | None) -> Workload | None:
    kind = each["kind"]
    where = f"{kind} {each['metadata'].get('name') or '?'}"
    spec = as_dict(each.get("spec"), where)
    if kind == "CronJob":
        spec = as_dict(as_dict(spec.get("jobTemplate"), where).get("spec"), where)
    template = each if kind == "Pod" else spec.get("template")
    if not isinstance(template, dict) or "containers" not in as_dict(template.get("spec"), where):
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
        selector = convert(spec["selector"], LabelSelector, where)
        if kind == "Deployment":  # its ReplicaSet's selector is only for the pods of this version
            selector.match_labels = {**selector.match_labels, TEMPLATE_HASH: NEW_HASH}
    elif kind == "ReplicationController" and spec.get("selector"):
        selector = LabelSelector(as_dict(spec["selector"], where))
    templates = tuple(as_dict(each, where) for each in spec.get("volumeClaimTemplates") or ())
    strategy = as_dict(spec.get("updateStrategy" if kind == "StatefulSet" else "strategy"), where)
    return Workload(kind, str(metadata["namespace"]), name, template, number, selector, templates, strategy)


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
        raise QuestionError(f"{where}: {short(number)} is not a number of replicas")
    return number


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


def put_object(snapshot: Snapshot, each: Json) -> None:
    """Add an object, or replace the one of the same name."""
    kind = KINDS[each["kind"]]
    new: Any = convert(each, kind, f"{each['kind']} {each['metadata'].get('name') or '?'}")
    if each["kind"] in CLUSTER_SCOPED:  # it would not be found under the namespace of names without one
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


# --- misspelt fields --------------------------------------------------------------------------------------

FIELDS = Path(__file__).with_name("fields.txt")
"""The fields that manifests of workloads can have. A misspelt one is an error, as the API server says it.

It has a line for each type: its fields; `field:Type` goes on into that type, `field:[Type]` into each item.
It is made of the API server's OpenAPI documents, and a test compares it with those of the real server.
"""


@cache
def field_types() -> dict[str, dict[str, str]]:
    """By type, its fields with the type of their content; "" for any content."""
    found = {}
    for entry in FIELDS.read_text().replace("\n    ", " ").splitlines():
        name, _, fields = entry.partition(": ")
        found[name] = {field: kind for field, _, kind in (each.partition(":") for each in fields.split())}
    return found


def misspelt(manifest: Json) -> list[str]:
    """A line for each field that the manifest's kind doesn't have; none for kinds that aren't listed.

    A kind in letters of the wrong size is misspelt, too.
    """
    kind = str(manifest.get("kind"))
    types = field_types()
    if kind not in types:
        meant = [each for each in types if each.lower() == kind.lower() and "metadata" in types[each]]
        return [f"there is no kind {kind} (did you mean {meant[0]}?)"] if meant else []
    return [*_misspelt(manifest, kind, "")]


def _misspelt(value: object, kind: str, path: str) -> Iterator[str]:
    """The same for a part of a manifest. What has the wrong type is left to who reads it."""
    if kind.startswith("["):
        for i, each in enumerate(value if isinstance(value, list) else ()):
            yield from _misspelt(each, kind.strip("[]"), f"{path.rstrip('.')}[{i}].")
    elif isinstance(value, dict) and kind:
        fields = field_types()[kind]
        for name, inner in value.items():
            if name in fields:
                yield from _misspelt(inner, fields[name], f"{path}{name}.")
            else:
                yield f'unknown field "{path}{name}"{_meant(str(name), fields, path)}'


def _meant(name: str, fields: dict[str, str], path: str) -> str:
    """The field that is probably meant: one of nearly this name, or one of this name a level higher."""
    by_lower = {each.lower(): each for each in fields}
    if near := get_close_matches(name.lower(), by_lower, 1):
        return f" (did you mean {by_lower[near[0]]}?)"
    return " (is it indented too far?)" if path == "metadata." and name in ("spec", "data") else ""
