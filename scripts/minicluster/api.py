"""Writes of any object, by the API server's rules: create, update, scale, delete.

HTTP requests and the stand-in controllers both write by these functions, so the same rules hold for both.
"""

import secrets
import uuid
from collections.abc import Callable
from typing import Any

from . import errors
from .admission import admit
from .clock import timestamp
from .defaults import fill_in
from .resources import LEASES, NAMESPACES, NODES, PODS, STATUS, Resource
from .selectors import show_selector
from .store import Key, Object, Store, Stored
from .validation import check_change, check_new, check_status_change, decodable

# The characters of generated names: no vowels, and none that look alike (apimachinery's util/rand).
SAFE_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
# The parts of metadata that only the server writes.
SERVERS_OWN = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
)


class Api:
    def __init__(self, store: Store) -> None:
        self.store = store

    def find(self, resource: Resource, key: Key) -> Stored:
        stored = self.store.get(resource, key)
        if not stored:
            raise errors.not_found(resource, key[1])
        return stored

    def create(
        self, resource: Resource, namespace: str, content: Object, manager: str = "", dry_run: bool = False
    ) -> Stored:
        content = decoded(resource, content)
        metadata = content["metadata"]
        if metadata.get("resourceVersion"):
            raise errors.internal("resourceVersion should not be set on objects to be created")
        if resource.namespaced:
            _set_namespace(metadata, namespace)
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields"):
            metadata.pop(field, None)
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = timestamp()
        if resource.has_generation:
            metadata["generation"] = 1
        if STATUS in resource.subresources and resource != NODES:
            content.pop("status", None)  # but a kubelet creates its node together with the status
        admit(self.store, resource, content)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + random_letters(5)
        fill_in(resource, content)
        check_new(resource, content)
        if self.store.get(resource, (metadata.get("namespace", ""), metadata["name"])):
            raise errors.already_exists(resource, metadata["name"])
        if manager:
            note_manager(resource, metadata, manager)
            if resource == PODS and content["spec"].get("nodeName"):  # not by a binding, which notes nothing
                metadata["managedFields"][-1]["fieldsV1"] = {"f:spec": {"f:nodeName": {}}}
        return self._written(resource, content, dry_run)

    def update(
        self,
        resource: Resource,
        key: Key,
        change: Callable[[Object], Object],
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
    ) -> Stored:
        """Replace an object, or the part for the subresource, by what `change` makes of it."""
        stored = self.find(resource, key)
        old, new = stored.content, decoded(resource, change(stored.copy()))
        self._check_same(stored, new["metadata"])
        if subresource == "status":
            new = {**stored.copy(), "status": new.get("status") or {}}
        elif STATUS in resource.subresources and "status" in old:
            new["status"] = stored.copy()["status"]
        metadata = new["metadata"]
        for field in SERVERS_OWN:
            metadata.pop(field, None)
            if field in old["metadata"]:
                metadata[field] = old["metadata"][field]
        metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
        fill_in(resource, new)
        if not subresource:
            check_change(resource, old, new)
        elif subresource == "status":
            check_status_change(resource, old, new)
        if new == old:
            return stored  # nothing was changed, so nothing is written, and watches get no event
        if resource.has_generation and _desired(old) != _desired(new):
            metadata["generation"] += 1
        if manager:
            note_manager(resource, metadata, manager, subresource)
        written = self._written(resource, new, dry_run)
        if metadata.get("deletionGracePeriodSeconds") == 0 and not metadata.get("finalizers") and not dry_run:
            return self.store.remove(written)  # the last finalizer is gone
        return written

    def delete(self, resource: Resource, key: Key, options: Object, dry_run: bool = False) -> Stored | None:
        """Delete an object, or begin to. Returns the object if it is deleted only later."""
        stored = self.find(resource, key)
        _check_preconditions(stored, options.get("preconditions") or {})
        if dry_run:
            return stored if resource == PODS else None
        if options.get("propagationPolicy") == "Orphan":
            self._orphan(stored)
        if resource == PODS:
            return self._delete_pod(stored, options.get("gracePeriodSeconds"))
        if resource == NAMESPACES:
            return self._mark_deleted(stored, 0, status={"phase": "Terminating"})
        if stored.metadata.get("finalizers"):
            return self._mark_deleted(stored, 0)
        self.store.remove(stored)
        return None

    def finish_delete(self, stored: Stored) -> None:
        """Delete an object that was being deleted, as a kubelet or the namespace controller does."""
        if not stored.metadata.get("finalizers"):
            self.store.remove(stored)
        elif stored.metadata["deletionGracePeriodSeconds"]:
            self._mark_deleted(stored, 0)  # its last finalizer's removal deletes it

    def scale_of(self, stored: Stored) -> Object:
        content, metadata = stored.content, stored.metadata
        kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": {field: metadata[field] for field in kept if field in metadata},
            "spec": {"replicas": content["spec"]["replicas"]},
            "status": {
                "replicas": content["status"].get("replicas", 0),
                "selector": show_selector(content["spec"].get("selector")),
            },
        }

    def scale(
        self, resource: Resource, key: Key, change: Callable[[Object], Object], manager: str, dry_run: bool
    ) -> Object:
        scale = change(self.scale_of(self.find(resource, key)))

        def set_replicas(content: Object) -> Object:
            content["spec"]["replicas"] = (scale.get("spec") or {}).get("replicas", 0)
            content["metadata"]["resourceVersion"] = scale["metadata"].get("resourceVersion", "")
            return content

        return self.scale_of(self.update(resource, key, set_replicas, "", manager, dry_run))

    def _check_same(self, stored: Stored, metadata: Object) -> None:
        """A write must have the existing object's name, its uid, and the version that was read."""
        name, resource = stored.key[1], stored.resource
        if metadata.get("name", name) != name:
            raise errors.bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
            )
        version = metadata.get("resourceVersion")
        if not version and resource == LEASES:
            missing = errors.FieldError(
                "FieldValueInvalid",
                "metadata.resourceVersion",
                "Invalid value: 0x0: must be specified for an update",
            )
            raise errors.invalid(resource, name, [missing])
        if version not in (None, "", "0") and version != stored.metadata["resourceVersion"]:
            raise errors.modified(resource, name)
        if metadata.get("uid") and metadata["uid"] != stored.metadata["uid"]:
            why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: "
            raise errors.conflict(
                resource.qualified, name, why + stored.metadata["uid"], errors.details_of(resource, name)
            )

    def _delete_pod(self, pod: Stored, wanted: int | None) -> Stored:
        """A running pod gets its grace period. A pod that no kubelet runs is deleted at once."""
        spec = pod.content["spec"]
        grace = spec["terminationGracePeriodSeconds"] if wanted is None else wanted
        if not spec.get("nodeName") or pod.content["status"]["phase"] in ("Succeeded", "Failed"):
            grace = 0
        if grace >= pod.metadata.get("deletionGracePeriodSeconds", grace + 1):
            return pod  # it is being deleted already, and sooner
        marked = self._mark_deleted(pod, grace)
        if grace == 0 and not marked.metadata.get("finalizers"):
            return self.store.remove(marked)
        return marked

    def _mark_deleted(self, stored: Stored, grace: int, status: Object | None = None) -> Stored:
        content = stored.copy()
        metadata = content["metadata"]
        if "generation" in metadata and "deletionTimestamp" not in metadata:
            metadata["generation"] += 1
        metadata["deletionTimestamp"] = timestamp(grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if status:
            content["status"] = status
        return self.store.put(stored.resource, content)

    def _orphan(self, owner: Stored) -> None:
        uid = owner.metadata["uid"]
        for dependent in self.store.owned_by(uid):
            content = dependent.copy()
            owners = [one for one in content["metadata"]["ownerReferences"] if one["uid"] != uid]
            content["metadata"]["ownerReferences"] = owners
            self.store.put(dependent.resource, content)

    def _written(self, resource: Resource, content: Object, dry_run: bool) -> Stored:
        return Stored(resource, content) if dry_run else self.store.put(resource, content)


def decoded(resource: Resource, content: Object) -> Object:
    """The object as its type decodes it: of the right kind, without fields that are null or unknown."""
    kind, group_version = (
        content.get("kind", resource.kind),
        content.get("apiVersion", resource.group_version),
    )
    if group_version != resource.group_version:
        raise errors.bad_request(
            f"the API version in the data ({group_version}) does not match the expected API version "
            f"({resource.group_version})"
        )
    if kind != resource.kind:
        package = resource.group.partition(".")[0]
        raise errors.bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
            f"converting ({package or resource.version}.{kind}) to ({package or 'core'}.{resource.kind}): "
            "unknown conversion"
        )
    content = decodable(resource, content)
    content = {field: value for field, value in content.items() if field not in ("kind", "apiVersion")}
    content["metadata"] = _without_nulls(content.get("metadata") or {})
    if "spec" in content:
        content["spec"] = _without_nulls(content["spec"] or {})
    return content


def random_letters(count: int) -> str:
    return "".join(secrets.choice(SAFE_LETTERS) for _ in range(count))


def note_manager(resource: Resource, metadata: Object, manager: str, subresource: str = "") -> None:
    """Note who wrote last, and when. Fields aren't noted here, as there is no server-side apply."""
    part = {"subresource": subresource} if subresource else {}
    entry = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": resource.group_version,
        "time": timestamp(),
        "fieldsType": "FieldsV1",
        "fieldsV1": {},
        **part,
    }
    others = [
        other
        for other in metadata.get("managedFields") or ()
        if (other["manager"], other.get("subresource", "")) != (manager, subresource)
    ]
    metadata["managedFields"] = [*others, entry]


def _set_namespace(metadata: Object, namespace: str) -> None:
    if metadata.get("namespace", namespace) != namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = namespace


def _desired(content: Object) -> Object:
    """The desired state of an object: all but its metadata and status."""
    return {field: value for field, value in content.items() if field not in ("metadata", "status")}


def _without_nulls(value: Any) -> Any:
    """The object without fields that are null: in Go's types, null is the same as no field."""
    if isinstance(value, dict):
        return {field: _without_nulls(inner) for field, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _check_preconditions(stored: Stored, wanted: Object) -> None:
    name, kind, metadata = stored.key[1], stored.resource.kind, stored.metadata
    for field, shown, what in (
        ("uid", "UID", "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", "modified"),
    ):
        if wanted.get(field, metadata[field]) != metadata[field]:
            why = (
                f"the {shown} in the precondition ({wanted[field]}) does not match the {shown} in record "
                f"({metadata[field]}). The object might have been {what}"
            )
            raise errors.conflict(kind, name, why)
