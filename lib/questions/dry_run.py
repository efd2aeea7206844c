"""Asks the API server what it would make of manifests. It stores nothing: each request is a dry run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from lib.kube.api import MERGE, STRATEGIC, Api
from lib.kube.errors import ConflictError, ForbiddenError, NotFoundError, StatusError
from lib.kube.objects import Json, Namespace
from lib.kube.paths import path_of, segment
from lib.questions.admission import ServerSaid, not_asked
from lib.questions.apply_patch import patch_for
from lib.questions.manifests import Workload, has_pods, named
from lib.questions.new_pods import template_of
from lib.questions.snapshot import Snapshot

NO_STRATEGIC = 415
"""The status for a strategic merge patch of a custom resource."""

REFERS = {
    "priorityClassName": "PriorityClass",
    "runtimeClassName": "RuntimeClass",
    "serviceAccountName": "ServiceAccount",
}
"""By field of a pod's spec, the kind of what it names: the server refuses a pod before that is there."""


class DryRun:
    """Sends objects of manifests, and pods of their workloads, to the API server as a dry run."""

    def __init__(self, api: Api, objects: Sequence[Json], snapshot: Snapshot) -> None:
        self._api, self._snapshot, self._said = api, snapshot, ServerSaid()
        self._objects = objects
        self._resources: dict[str, dict[str, Json]] = {}
        self._namespaces = {namespace.metadata.name for namespace in snapshot.of(Namespace)}
        self._new: set[tuple[str, object]] = set()
        self._to_come = {(manifest["kind"], manifest["metadata"].get("name")) for manifest in objects}
        self._kinds_to_come = {*_defined(objects)}
        self._missing_rights = ""

    def stored(self) -> list[Json]:
        """Send all objects. Returns each as the API server would store it, if it says that."""
        found = []
        for manifest in self._objects:
            found.append(self._object(manifest) or manifest)
            self._new.add((manifest["kind"], manifest["metadata"].get("name")))
        return found

    def ask(self, workloads: Sequence[Workload]) -> ServerSaid:
        """Send a pod of each workload, as `stored` knows it. Returns what the server said of all."""
        said = self._said
        for workload in workloads:
            is_sent = workload.kind == "Pod" or workload.source in said.refused
            if not is_sent and not self._is_to_come(workload.namespace):
                self._pod_of(workload)
        if self._missing_rights:
            more = not_asked(workloads, self._snapshot, self._missing_rights)
        else:
            to_come = [workload for workload in workloads if self._is_to_come(workload.namespace)]
            more = not_asked(to_come, self._snapshot, "it is still to come")
        if self._missing_rights or more.unsure:
            said.unknown += more.unknown
            said.unsure = more.unsure
        return said

    def _object(self, manifest: Json) -> Json | None:
        version, kind = str(manifest["apiVersion"]), manifest["kind"]
        resource = self._resources_of(version).get(kind)
        name, metadata = named(manifest), manifest["metadata"]
        if resource is None:
            self._no_such_kind(name, kind, version, has_pods=has_pods(manifest))
            return None
        if self._is_to_come(str(metadata["namespace"])) and resource["namespaced"]:
            self._said.unknown.append(f"what the API server says of {name}: its namespace is still to come")
            return None
        if resource["namespaced"]:
            path = path_of(resource["name"], str(metadata["namespace"]), api=_api(version))
        else:
            path = f"{_api(version)}/{resource['name']}"
            manifest = {
                **manifest,
                "metadata": {key: metadata[key] for key in metadata if key != "namespace"},
            }
        if kind == "Pod" and isinstance(manifest.get("spec"), dict):
            return self._pod(name, path, manifest)
        stored = self._send(name, path, manifest, metadata.get("name"))
        return stored and {**stored, "metadata": {**stored["metadata"], **metadata}}

    def _no_such_kind(self, name: str, kind: str, version: str, *, has_pods: bool) -> None:
        said = f"the API server has no kind {kind} of {version}"
        if (version.partition("/")[0], kind) in self._kinds_to_come:
            self._said.unknown.append(f"what the API server says of {name}: its kind is still to come")
        elif has_pods:
            self._said.refused[name] = said
        else:
            self._said.unknown.append(f"{name} is left out: {said}")

    def _pod_of(self, workload: Workload) -> None:
        """Send a pod as the workload's controller would."""
        body = template_of(workload)
        metadata = {key: body["metadata"][key] for key in ("namespace", "labels", "annotations")}
        pod = {**body, "apiVersion": "v1", "metadata": {**metadata, "generateName": f"{workload.name}-"}}
        self._pod(str(workload), path_of("pods", workload.namespace), pod)

    def _pod(self, name: str, path: str, pod: Json) -> Json | None:
        """Send a pod without the names of what is still to come, as the server would refuse these."""
        spec = pod["spec"]
        to_come = {
            field: spec[field] for field, kind in REFERS.items() if (kind, spec.get(field)) in self._new
        }
        sent = {**pod, "spec": {field: spec[field] for field in spec if field not in to_come}}
        stored = self._send(name, path, sent, pod["metadata"].get("name"))
        if stored:
            self._said.specs[name], self._said.to_come[name] = stored["spec"], to_come
        return None

    def _send(self, name: str, path: str, body: Json, its_name: str | None) -> Json | None:
        """The object as the API server would store it; None if it refuses it, or wasn't asked."""
        try:
            try:
                return _read(self._api.dry_run(path, msgspec.json.encode(body)))
            except ConflictError:
                if not its_name:
                    raise
                own = f"{path}/{segment(its_name)}"
                live = _read(self._api.get_whole(own))
                stored = self._applied(own, body, live)
                if _template(stored) == _template(live):
                    self._said.unchanged.add(name)
                return stored
        except StatusError as error:
            # kubectl proxy says nothing; admission's words have no "cannot".
            if isinstance(error, ForbiddenError) and (not error.said or " cannot " in error.said):
                self._missing_rights = f"the API server wasn't asked, because of a missing right: {error}"
            else:
                self._said.refused[name] = error.said or str(error)
            return None

    def _applied(self, path: str, manifest: Json, live: Json) -> Json:
        """What becomes of an object that is there."""
        try:
            patch = patch_for(manifest, live, strategic=True)
            return _read(self._api.dry_run(path, msgspec.json.encode(patch), patch=STRATEGIC))
        except StatusError as error:
            if str(NO_STRATEGIC) not in str(error):
                raise
            patch = patch_for(manifest, live, strategic=False)
            return _read(self._api.dry_run(path, msgspec.json.encode(patch), patch=MERGE))

    def _resources_of(self, version: str) -> Mapping[str, Json]:
        """By kind, the resources of an API version; none if the API server doesn't have it."""
        if version not in self._resources:
            try:
                found = _read(self._api.get_whole(_api(version))).get("resources") or []
            except NotFoundError:
                found = []
            self._resources[version] = {
                served["kind"]: served for served in found if "/" not in served["name"]
            }
        return self._resources[version]

    def _is_to_come(self, namespace: str) -> bool:
        """Whether the manifests create a namespace that isn't there yet."""
        return ("Namespace", namespace) in self._to_come and namespace not in self._namespaces


def _defined(objects: Iterable[Json]) -> Iterator[tuple[str, str]]:
    """The groups and kinds of the CustomResourceDefinitions among some objects."""
    for manifest in objects:
        spec = manifest.get("spec")
        if manifest["kind"] == "CustomResourceDefinition" and isinstance(spec, dict):
            kinds = spec.get("names")
            yield str(spec.get("group")), str(kinds.get("kind")) if isinstance(kinds, dict) else ""


def _api(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _read(body: bytes) -> Json:
    found: Json = msgspec.json.decode(body)
    return found


def _template(stored: Json) -> object:
    """The template of a workload's pods."""
    return (stored.get("spec") or {}).get("template")
