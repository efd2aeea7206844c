"""Stand-ins for the controllers whose work a scheduler sees: deployments, replica sets, disruption budgets,
volumes, resource claims, garbage collection, namespaces.

Each compares the actual state with the desired state, and takes the next step. The change that this makes
calls it again.
"""

import asyncio
import traceback

from .api import Api
from .claim_controller import ClaimController
from .disruptions import Disruptions
from .errors import ApiError
from .resources import (
    CLAIMS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    NAMESPACES,
    PODS,
    REPLICA_SETS,
    RESOURCE_CLAIMS,
    RESOURCES,
    VOLUMES,
    Resource,
)
from .selectors import matches_selector
from .status import add_condition, set_status
from .store import Key, Stored, WatchEvent
from .volume_controller import VolumeController
from .workloads import Workloads

PAUSE = 0.02  # seconds; changes are collected for so long, and then handled together
RETRY = 1.0  # seconds until a failed step is tried again


class Controllers:
    def __init__(self, api: Api, provision_delay: float) -> None:
        self._api = api
        self._store = api.store
        workloads = Workloads(api)
        self._volumes = VolumeController(api, provision_delay)
        self._claims = ClaimController(api)
        self._work = {
            DEPLOYMENTS: workloads.deployment,
            REPLICA_SETS: workloads.replica_set,
            DISRUPTION_BUDGETS: Disruptions(api).budget,
            NAMESPACES: self._namespace,
            CLAIMS: self._volumes.claim,
            VOLUMES: self._volumes.volume,
            PODS: self._pod,
            RESOURCE_CLAIMS: self._claims.claim,
        }
        self._waiting: dict[tuple[Resource, Key], None] = {}  # in the order of their arrival
        self._woken = asyncio.Event()
        api.store.listen(self._on_event)

    async def run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            await asyncio.sleep(PAUSE)
            waiting, self._waiting = self._waiting, {}
            for resource, key in waiting:
                stored = self._store.get(resource, key)
                try:
                    if stored:
                        self._reconcile(stored)
                except Exception:  # one invalid object must not stop the work on all others
                    traceback.print_exc()

    def _reconcile(self, stored: Stored) -> None:
        try:
            self._work[stored.resource](stored)
        except ApiError as error:  # such as a template that names a priority class that isn't there
            self._blame(stored, str(error))
            asyncio.get_running_loop().call_later(RETRY, self._wake, stored.resource, stored.key)

    def _on_event(self, event: WatchEvent) -> None:
        resource, stored = event.resource, event.new
        if resource in self._work:
            self._wake(resource, stored.key)
        for touched in (*self._volumes.touched_by(event), *self._claims.touched_by(event)):
            self._wake(touched.resource, touched.key)
        if resource in (PODS, REPLICA_SETS):
            for owner in stored.metadata.get("ownerReferences") or ():
                kind = {"ReplicaSet": REPLICA_SETS, "Deployment": DEPLOYMENTS}.get(owner["kind"])
                if kind:
                    self._wake(kind, (stored.key[0], owner["name"]))
        if resource == PODS:
            seen = [pod.metadata.get("labels") or {} for pod in (event.old, event.new) if pod]
            for budget in self._store.every(DISRUPTION_BUDGETS, stored.key[0]):
                selector = (budget.content.get("spec") or {}).get("selector")
                if any(matches_selector(selector, labels) for labels in seen):
                    self._wake(DISRUPTION_BUDGETS, budget.key)
        if event.kind == "DELETED":
            asyncio.get_running_loop().call_soon(self._collect, stored.metadata["uid"])

    def _pod(self, pod: Stored) -> None:
        """Make its claims: for ephemeral volumes, and for devices."""
        self._volumes.pod(pod)
        self._claims.pod(self._api.find(PODS, pod.key))

    def _wake(self, resource: Resource, key: Key) -> None:
        self._waiting[resource, key] = None
        self._woken.set()

    def _collect(self, uid: str) -> None:
        """Garbage collection: delete the objects whose owner was deleted."""
        for dependent in self._store.owned_by(uid):
            self._api.delete(dependent.resource, dependent.key, {})

    def _namespace(self, namespace: Stored) -> None:
        if not namespace.metadata.get("deletionTimestamp"):
            return
        for resource in RESOURCES:
            if resource.namespaced:
                for stored in self._store.every(resource, namespace.key[1]):
                    self._api.delete(resource, stored.key, {"gracePeriodSeconds": 0})
        self._api.finish_delete(namespace)

    def _blame(self, stored: Stored, message: str) -> None:
        """Write on the object why its controller stopped."""
        if stored.resource not in (DEPLOYMENTS, REPLICA_SETS):
            return
        status = dict(stored.content.get("status") or {})
        add_condition(status, "ReplicaFailure", True, "FailedCreate", "")
        status["conditions"][-1]["message"] = message
        set_status(self._api, stored, status)
