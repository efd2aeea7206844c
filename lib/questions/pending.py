"""`why` without a pod's name: all pods that wait, by cause, and the controllers that can't create pods."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lib.kube.api import Api
from lib.kube.errors import AnswerError, ForbiddenError, NotFoundError
from lib.kube.objects import ControllerRef, Event, Object, ObjectMeta, Pod, PodCondition
from lib.kube.paths import path_of
from lib.questions.deciding import Decider, node_of, queue_order
from lib.questions.device_claims import knows_devices
from lib.questions.events import Said
from lib.questions.leaving import makes_room
from lib.questions.snapshot import Snapshot
from lib.questions.subjects import Subject
from lib.questions.suggestions import Suggestion, with_fixes
from lib.questions.verdict import Verdict, verdict
from lib.questions.volumes import to_provision
from lib.questions.why import Why, why
from lib.scheduling.decision import Outcome
from lib.scheduling.text import count, names

EXPLAINED = 5
"""For at most so many causes, what would help is looked for."""

MOST_TRIED = 300
"""The most pods with which a suggestion is tried."""

CREATORS = {
    "ReplicaSet": "/apis/apps/v1/replicasets",
    "StatefulSet": "/apis/apps/v1/statefulsets",
    "DaemonSet": "/apis/apps/v1/daemonsets",
    "Job": "/apis/batch/v1/jobs",
    "ReplicationController": "/api/v1/replicationcontrollers",
}
"""By kind, the paths of the controllers that create pods."""


class Replicas(Object):
    """How many pods a controller wants, or has."""

    replicas: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    parallelism: int = 0
    completions: int | None = None
    suspend: bool = False
    active: int = 0
    succeeded: int = 0
    conditions: list[PodCondition] = msgspec.field(default_factory=list)

    @property
    def has_ended(self) -> bool:
        """Whether a Job has, or is about to: then it creates no more pods."""
        ends = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")
        return any(condition.type in ends and condition.status == "True" for condition in self.conditions)


class Creator(Object):
    """A controller that creates pods, of any kind."""

    metadata: ObjectMeta
    spec: Replicas = msgspec.field(default_factory=Replicas)
    status: Replicas = msgspec.field(default_factory=Replicas)

    @property
    def missing(self) -> int:
        """How many pods it still has to create."""
        spec, status = self.spec, self.status
        wanted = spec.replicas or spec.parallelism or status.desired_number_scheduled
        if spec.completions is not None:
            wanted = min(wanted, spec.completions - status.succeeded)
        if spec.suspend or status.has_ended:
            wanted = 0
        return max(wanted - (status.replicas or status.active or status.current_number_scheduled), 0)


@dataclass(frozen=True)
class Uncreated:
    """A controller that can't create its pods, and what the API server says to it."""

    controller: str
    missing: int
    said: Said

    @property
    def reason(self) -> str:
        """The API server's words, without the pod's name and what is different for each try."""
        words = self.said.message.removeprefix("(combined from similar events): ")
        words = words.removeprefix("Error creating: ").rstrip(".")
        return re.sub(r'^pods "[^"]*" is forbidden: ', "", words)

    @property
    def cause(self) -> tuple[str, str]:
        """What has the same cause: the namespace, and the quota or the reason itself."""
        quota = re.match("(?:exceeded|failed) quota: [^,:]+", self.reason)
        return self.controller.partition(" ")[2].partition("/")[0], quota[0] if quota else self.reason


@dataclass(frozen=True)
class Cause:
    """Pods that wait for the same reason. why: of the first of them. pods: all of them."""

    why: Why
    pods: Sequence[Pod]


@dataclass(frozen=True)
class Help:
    """A change, and how many of the waiting pods would have a node with it, together.

    cause: the index of the cause that it was found for.
    """

    suggestion: Suggestion
    pods: int
    cause: int


@dataclass
class Pending:
    """The answer.

    placed: how many of the pods asked about have a node. would_be_placed: those that would get one now.
    where: of which pods it is, in words.
    """

    causes: list[Cause] = field(default_factory=list)
    uncreated: list[Uncreated] = field(default_factory=list)
    helps: list[Help] = field(default_factory=list)
    placed: int = 0
    would_be_placed: list[Pod] = field(default_factory=list)
    where: str = ""

    @property
    def unheeded(self) -> dict[str, list[Pod]]:
        """By scheduler name, the pods that would be placed, but have no word of their scheduler's."""
        found: dict[str, list[Pod]] = {}
        for pod in self.would_be_placed:
            if not any(condition.type == "PodScheduled" for condition in pod.status.conditions):
                found.setdefault(pod.spec.scheduler_name, []).append(pod)
        return found

    @property
    def best(self) -> list[Help]:
        """What helps most, for each cause the best."""
        found: dict[int, Help] = {}
        for help_ in self.helps:
            if help_.pods:
                found.setdefault(help_.cause, help_)
        return list(found.values())

    @property
    def waiting(self) -> int:
        """How many pods have no node, and would get none now."""
        return sum(len(cause.pods) for cause in self.causes)

    @property
    def verdict(self) -> Verdict:
        """Whether all pods are created, and have a node or would get one."""
        only_devices = not any(knows_devices(cause.why.decision) for cause in self.causes)
        yes = all(cause.why.yes for cause in self.causes) and not self.uncreated
        return verdict(yes, sure=yes or bool(self.uncreated) or not only_devices)

    def as_json(self) -> dict[str, Any]:
        """The whole answer, but for the verdict."""
        return {
            "placed": self.placed,
            "would_be_placed": [str(pod) for pod in self.would_be_placed],
            "causes": [
                {"pods": [str(pod) for pod in cause.pods], "first": cause.why.as_json()}
                for cause in self.causes
            ],
            "not_created": [
                {"controller": uncreated.controller, "missing": uncreated.missing, "said": uncreated.said}
                for uncreated in self.uncreated
            ],
            "what_helps_most": self.helps_as_json(),
        }

    def helps_as_json(self) -> list[dict[str, Any]]:
        """What helps most."""
        return [
            {"changes": [fix.words for fix in help_.suggestion.fixes], "pods_with_a_node": help_.pods}
            for help_ in self.helps
        ]


class Asking:
    """Asks about pods, one after the other: the waiting ones as a scheduler would try them."""

    def __init__(
        self,
        pods: Sequence[Pod],
        uncreated: list[Uncreated],
        snapshot: Snapshot,
        decider: Decider,
        where: str = "",
    ) -> None:
        placed = sum(bool(pod.spec.node_name) for pod in pods)
        self.answer = Pending(uncreated=uncreated, placed=placed, where=where)
        self._waiting = sorted((pod for pod in pods if not pod.spec.node_name), key=queue_order)
        self._snapshot, self._decider = snapshot, decider

    def __len__(self) -> int:
        return len(self._waiting)

    def steps(self) -> Iterator[Pod]:
        """Yields each pod; the answer is complete at the end."""
        by_cause: dict[object, list[Pod]] = {}
        for pod in self._waiting:
            gated = self._decider.gated(pod)
            decision = self._decider.ask(pod)
            waits = decision.nominated and any(makes_room(decision, self._decider))
            has_node = not gated and not waits and node_of(decision)
            makers = frozenset(
                claim.provisioner for claim in to_provision(pod, self._decider.cache.storage, self._snapshot)
            )
            if makers:
                by_cause.setdefault((makers, bool(has_node)), []).append(pod)
            elif has_node:
                self.answer.would_be_placed.append(pod)
            else:
                reasons = {
                    (rejection.plugin, rejection.status.reasons, rejection.status.code)
                    for rejection in decision.rejected.values()
                }
                has_reasons = decision.rejected and decision.outcome != Outcome.ERROR
                message = "" if has_reasons else decision.message
                cause = gated, message, frozenset(reasons), pod.spec.scheduler_name
                by_cause.setdefault(cause, []).append(pod)
            yield pod
        causes = sorted(by_cause.values(), key=len, reverse=True)
        for i, pods in enumerate(causes):
            explained = why(pods[0], self._snapshot, self._decider, suggestions=i < EXPLAINED)
            self.answer.causes.append(Cause(explained, pods))
        self.answer.helps = self._helps()

    def _helps(self) -> list[Help]:
        """The suggestions, those first with which the most pods have a node."""
        suggested: dict[str, tuple[int, Suggestion]] = {}
        for i, cause in enumerate(self.answer.causes):
            for suggestion in cause.why.suggestions:
                suggested.setdefault(suggestion.words, (i, suggestion))
        pods = [pod for cause in self.answer.causes if not cause.why.yes for pod in cause.pods][:MOST_TRIED]
        found = [
            Help(suggestion, placed_with(suggestion, self.answer.causes[i].pods[0], pods, self._decider), i)
            for i, suggestion in suggested.values()
        ]
        return sorted(found, key=lambda help_: (-help_.pods, len(help_.suggestion.fixes)))


def placed_with(suggestion: Suggestion, first: Pod, pods: Sequence[Pod], decider: Decider) -> int:
    """How many pods have a node with a suggestion.

    What it changes of the first pod, for which it was found, it changes of all pods of the same controller.
    """
    changed = [new or pod for new, pod in zip(suggestion.made_to(pods, first), pods, strict=True)]
    with with_fixes(decider, suggestion.fixes), decider.placed(changed) as placed:
        return placed


# --- controllers that create no pods ----------------------------------------------------------------------


def read_uncreated(api: Api, snapshot: Snapshot, meant: Subject) -> list[Uncreated]:
    """The controllers whose last attempt to create a pod failed, as their events say."""
    path = path_of("events", meant.namespace) if meant.namespace else "/api/v1/events"
    try:
        events = api.list(path, Event, fieldSelector="reason=FailedCreate").items
    except (ForbiddenError, NotFoundError) as error:
        snapshot.note(f"going on without the events of controllers: {error}")
        return []
    last: dict[ControllerRef, Event] = {}
    for event in sorted((event for event in events if event.said_at), key=lambda event: str(event.said_at)):
        about = event.involved_object
        ref = ControllerRef(about.namespace, about.api_version, about.kind, about.name, about.uid)
        if about.kind in CREATORS and meant.controls(about.namespace, about.kind, about.name):
            last[ref] = event
    found = []
    for ref, event in last.items():
        base, _, plural = CREATORS[ref.kind].rpartition("/")
        try:
            creator = api.get(path_of(plural, ref.namespace, ref.name, api=base), Creator)
        except (NotFoundError, ForbiddenError, AnswerError):
            continue
        if creator.missing and creator.metadata.uid == ref.uid:
            found.append(Uncreated(f"{ref.kind} {ref.namespace}/{ref.name}", creator.missing, Said.of(event)))
    return sorted(found, key=lambda uncreated: -uncreated.missing)


def missing_text(alike: Sequence[Uncreated]) -> str:
    """`ReplicaSet default/web-5d4 can't create 3 pods`, of controllers with the same cause."""
    pods = count(sum(uncreated.missing for uncreated in alike), "pod")
    return f"{names([uncreated.controller for uncreated in alike], 3)} can't create {pods}"
