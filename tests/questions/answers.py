"""The fields of each answer in JSON: their types, and the schema and the page that are made of these.

`.venv/bin/python -m tests.questions.answers` writes both into lib/questions.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

FOLDER = Path(__file__).parents[2] / "lib/questions"
SCHEMA, PAGE = FOLDER / "answers.schema.json", FOLDER / "answers.md"

Verdict = Annotated[
    Literal["yes", "no", "unknown"], Meta(description="what it comes to: exit status 0, 3 or 4")
]
Pod = Annotated[str, Meta(description="a pod, as `namespace/name`")]
Pods = Annotated[list[str], Meta(description="pods")]
NodeName = Annotated[str, Meta(description="a node")]
Message = Annotated[str, Meta(description="in the words of kube-scheduler's events")]
Counts = Annotated[dict[str, int], Meta(description="by node, how many pods")]


class Answer(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Base of all parts."""


class Largest(Answer):
    """The pod that has most of a resource on a node."""

    pod: Pod
    requests: Annotated[int, Meta(description="how much it requests")]


class Lack(Answer):
    """Of what a node has too little; cpu in thousandths, memory and storage in bytes, else a number."""

    resource: Annotated[
        str,
        Meta(
            description="of a node (`cpu`, `pods`); `devices` and `storage` that a claim requests; `volumes` "
            "that a driver attaches; if the field `devices` is there, their capacity or `SET/COUNTER`"
        ),
    ]
    needs: Annotated[int, Meta(description="how much the pod requests")]
    has: Annotated[
        int,
        Meta(
            description="how much there is: on the node; of `devices`, those that the request selects; "
            "of `storage`, the largest volume"
        ),
    ]
    free: Annotated[int, Meta(description="what is left; below 0 if more is requested than there is")]
    largest: Largest | UnsetType = UNSET
    daemons: Annotated[int, Meta(description="what DaemonSets' and static pods have of it")] | UnsetType = (
        UNSET
    )
    kept_for: Annotated[list[str], Meta(description="nominated pods, for which it is kept")] | UnsetType = (
        UNSET
    )
    claim: (
        Annotated[str, Meta(description="of `devices` and `storage`: the claim that requests them")]
        | UnsetType
    ) = UNSET
    request: Annotated[str, Meta(description="of `devices`: the claim's request")] | UnsetType = UNSET
    class_: Annotated[str, Meta(description="its device class or storage class")] | UnsetType = msgspec.field(
        name="class", default=UNSET
    )
    volume: Annotated[str, Meta(description="of `storage`: the volume that nearly fits")] | UnsetType = UNSET
    driver: Annotated[str, Meta(description="of `volumes`: what attaches them")] | UnsetType = UNSET
    held_by: (
        Annotated[
            dict[str, int],
            Meta(
                description="who has how many: claims have `devices`; pods, and VolumeAttachments, `volumes`"
            ),
        ]
        | UnsetType
    ) = UNSET
    devices: Annotated[int, Meta(description="so many devices have this")] | UnsetType = UNSET
    lacks: Annotated[list["Lack"], Meta(description="of what `devices` have too little")] | UnsetType = UNSET


class NodeVerdict(Answer):
    """What a scheduler says of a node: why it is rejected, or how it is scored."""

    rejected_by: Annotated[str, Meta(description="the plugin that rejects it")] | UnsetType = UNSET
    reasons: Annotated[list[str], Meta(description="in kube-scheduler's words")] | UnsetType = UNSET
    details: Annotated[list[str], Meta(description="what the reasons leave out, for people")] | UnsetType = (
        UNSET
    )
    lacks: Annotated[list[Lack], Meta(description="the same as numbers")] | UnsetType = UNSET
    scores: Annotated[dict[str, int], Meta(description="by plugin, with weights")] | UnsetType = UNSET
    total: Annotated[int, Meta(description="the sum of the scores")] | UnsetType = UNSET


class Suggestion(Answer):
    """Changes with which the pod fits; each was tried."""

    changes: Annotated[list[str], Meta(description="for people")]
    nodes: Annotated[list[str], Meta(description="where it fits then")]


class Said(Answer):
    """The last message about an object."""

    by: Annotated[str, Meta(description="who said it")]
    reason: Annotated[str, Meta(description="such as FailedScheduling")]
    message: Annotated[str, Meta(description="the text")]
    at: Annotated[str | None, Meta(description="when, in RFC 3339")]
    times: Annotated[int, Meta(description="how often")]


class ToProvision(Answer):
    """A claim for which a provisioner is to make a volume now."""

    claim: Annotated[str, Meta(description="as `namespace/name`")]
    storage_class: Annotated[str, Meta(description="its storage class")] = msgspec.field(name="class")
    provisioner: Annotated[str, Meta(description="who is to make it")]
    node: Annotated[str | None, Meta(description="where")]
    said: Said | None


class Why(Answer):
    """`why POD`: why a pod has no node, or why it is on its node. Also a part of other answers."""

    question: Literal["why"]
    answer: Verdict
    pod: Pod
    scheduler: Annotated[str, Meta(description="spec.schedulerName")]
    profile: Annotated[str, Meta(description="the profile that decided here")]
    bound_to: Annotated[str | None, Meta(description="the node that it has")]
    gated: Annotated[str | None, Meta(description="why no scheduler may place it yet")]
    outcome: Annotated[
        Literal["scheduled", "bound", "waiting", "unschedulable", "error"],
        Meta(description="how the decision ended"),
    ]
    node: Annotated[str | None, Meta(description="where it would go now")]
    message: Message
    nominated: Annotated[str | None, Meta(description="where it would go once the victims have left")]
    victims: Annotated[list[str], Meta(description="pods that would be evicted for it")]
    nodes: Annotated[dict[str, NodeVerdict], Meta(description="by name")]
    suggestions: list[Suggestion]
    leaving: Annotated[
        dict[str, dict[str, str]],
        Meta(description="nodes on which it fits once these pods have left, and what is said of each"),
    ]
    said: Said | None
    to_provision: list[ToProvision]
    group: Annotated[str | None, Meta(description="the group with which it is placed")]
    waits_for: Annotated["Why | None", Meta(description="the pod of its group that has no node")]


class Cause(Answer):
    """Pods that wait for the same reason."""

    pods: Pods
    first: Why


class NotCreated(Answer):
    """A controller that can't create pods."""

    controller: Annotated[str, Meta(description="such as `ReplicaSet default/web`")]
    missing: Annotated[int, Meta(description="how many pods")]
    said: Said | None


class Helps(Answer):
    """Changes that help several pods."""

    changes: Annotated[list[str], Meta(description="for people")]
    pods_with_a_node: Annotated[int, Meta(description="how many more pods get one")]


class Pending(Answer):
    """`why` without a name: all pods that wait."""

    question: Literal["why"]
    answer: Verdict
    placed: Annotated[int, Meta(description="how many of the chosen pods have a node")]
    would_be_placed: Annotated[list[str], Meta(description="pods that would get one now")]
    causes: list[Cause]
    not_created: list[NotCreated]
    what_helps_most: list[Helps]


class Gap(Answer):
    """A time in which nothing was recorded."""

    from_: Annotated[str, Meta(description="in RFC 3339")] = msgspec.field(name="from")
    to: str
    why: Annotated[str, Meta(description="what was the matter, if it is known")]


class CauseOfWait(Answer):
    """For how long a pod waited for what; a cause may come again."""

    cause: Annotated[str, Meta(description="in kube-scheduler's words, without numbers")]
    seconds: float


class Wait(Answer):
    """How long a pod waited: from when it could be tried until it had a node."""

    pod: Pod
    from_: Annotated[str, Meta(description="in RFC 3339")] = msgspec.field(name="from")
    to: Annotated[str | None, Meta(description="null: it waited longer than asked about")]
    seconds: float
    node: Annotated[str | None, Meta(description="null: it has none, or was deleted")]
    causes: Annotated[list[CauseOfWait], Meta(description="one after the other")]


class Waited(Answer):
    """How long pods waited for the same."""

    cause: str
    pods: Annotated[int, Meta(description="how many")]
    seconds: Annotated[float, Meta(description="all together")]
    longest_seconds: float


class Moment(Answer):
    """A moment at which it was tried what would have helped."""

    at: Annotated[str, Meta(description="in RFC 3339")]
    is_: Annotated[
        list[str],
        Meta(description="most pods waited, the longest wait was half over, or the end: for people"),
    ] = msgspec.field(name="is")
    waited: Annotated[int, Meta(description="how many pods")]
    tried: Annotated[int, Meta(description="with how many of these changes were tried")]
    would_have_helped: Annotated[
        dict[str, int],
        Meta(description="by change, for people: how many of the tried pods would have had a node"),
    ]


class Past(Answer):
    """`why` of a recording, between two times: which pods waited, for how long, and for what."""

    question: Literal["why"]
    answer: Verdict
    since: Annotated[str, Meta(description="in RFC 3339")]
    until: str
    gaps: list[Gap]
    placed_at_once: Annotated[int, Meta(description="how many pods had a node within two seconds")]
    waits: list[Wait]
    causes: Annotated[list[Waited], Meta(description="the longest first")]
    most_waited_at: Annotated[
        str | None, Meta(description="when most pods waited; what helps most is said of that time")
    ]
    what_helps_most: list[Helps]
    moments: Annotated[list[Moment], Meta(description="by time")]


class TriedWorkload(Answer):
    """A workload of the manifests."""

    kind: str
    namespace: str
    name: str
    pods: Annotated[int, Meta(description="how many it has")]
    placed: Annotated[int, Meta(description="how many of these would have a node")]
    nodes: Counts


class TriedPod(Answer):
    """A pod of the manifests, and where it would go."""

    pod: Pod
    node: Annotated[str | None, Meta(description="null: it would have none")]
    message: Message
    victims: Annotated[list[str], Meta(description="pods that would be evicted for it")]
    unprotected_victims: (
        Annotated[
            dict[str, list[str]], Meta(description="by victim, the budgets that don't allow its eviction")
        ]
        | UnsetType
    ) = UNSET


class Usage(Answer):
    """How much of a resource is requested on a node."""

    requested: float
    allocatable: float


class BeforeAndAfter(Answer):
    """A node's usage by resource; cpu in thousandths, memory in bytes."""

    before: dict[str, Usage]
    after: dict[str, Usage]


class Step(Answer):
    """A step of a rollout."""

    added: Annotated[dict[str, str], Meta(description="the node of each new pod")]
    removed: Pods
    waiting: Annotated[list[str], Meta(description="new pods without a node")]


class Rollout(Answer):
    """The rollout of a workload that is there."""

    workload: Annotated[str, Meta(description="such as `Deployment default/web`")]
    old_pods: Annotated[int, Meta(description="how many it has")]
    template_changes: bool
    stuck: Annotated[bool, Meta(description="whether it never ends")]
    old_pods_left: Annotated[list[str], Meta(description="those that stay if it is stuck")]
    old_pods_kept: Annotated[list[str], Meta(description="those that are to stay")]
    ends_with_max_unavailable: Annotated[
        int | None, Meta(description="with which it would end, if it is stuck and one was found")
    ]
    steps: list[Step]


Unknown = Annotated[list[str], Meta(description="what is not known, for people")]


class Try(Answer):
    """`try`: where the pods of manifests would go."""

    question: Literal["try"]
    answer: Verdict
    workloads: list[TriedWorkload]
    pods: list[TriedPod]
    nodes: Annotated[dict[str, BeforeAndAfter], Meta(description="by name")]
    why: Annotated[list[Why], Meta(description="of each workload, the first pod without a node")]
    rollouts: list[Rollout]
    refused: Annotated[dict[str, str], Meta(description="by object, what the API server refuses")]
    unknown: Unknown


class RoomFor(Answer):
    """How many more pods of a workload fit."""

    kind: str
    namespace: str
    name: str
    fit: Annotated[int, Meta(description="how many more")]
    nodes: Counts
    stopped: Annotated[Why | None, Meta(description="why the next one has no node")]
    refused: Annotated[str | None, Meta(description="why the next one isn't even created")]


class Room(Answer):
    """`room`: how many more pods of manifests fit."""

    question: Literal["room"]
    answer: Verdict
    at_least: Annotated[bool, Meta(description="whether it stopped at its limit, so more may fit")]
    workloads: list[RoomFor]
    unknown: Unknown


class WhyHeld(Answer):
    """Why a budget allows no disruption of a pod."""

    healthy: Annotated[int, Meta(description="how many of its pods are")]
    must_be_healthy: int
    pods: Annotated[int, Meta(description="how many it has")]
    condition: Annotated[str, Meta(description="what the disruption controller says, if it failed")]
    always_allow_would_help: Annotated[
        bool, Meta(description="whether `unhealthyPodEvictionPolicy: AlwaysAllow` would let the pod go")
    ]


class Leaving(Answer):
    """A pod that leaves a drained node."""

    pod: Pod
    from_node: NodeName = msgspec.field(name="from")
    to: Annotated[str | None, Meta(description="where it goes")]
    message: Message
    victims: Pods
    unprotected_victims: Annotated[
        dict[str, list[str]], Meta(description="by victim, the budgets that don't allow its eviction")
    ]
    budgets: Annotated[list[str], Meta(description="the budgets that hold it")]
    why_budgets: Annotated[dict[str, WhyHeld], Meta(description="by budget")]
    held_by: Annotated[str | None, Meta(description="what keeps it, such as a finalizer")]
    finished: Annotated[bool, Meta(description="whether it has ended already")]
    stuck: Annotated[str | None, Meta(description="why it is never evicted")]
    wave: Annotated[int | None, Meta(description="when it is evicted; null: never")]
    displaced_by: Annotated[str | None, Meta(description="the pod for which it is evicted")]
    made_again: Annotated[bool, Meta(description="whether its controller makes a new one")]


class Drain(Answer):
    """`drain`: what `kubectl drain` would do."""

    question: Literal["drain"]
    answer: Verdict
    nodes: Annotated[list[str], Meta(description="that are drained")]
    waves: Annotated[int, Meta(description="how many")]
    kubectl_options: Annotated[
        dict[str, list[str]], Meta(description="those that kubectl needs, and for which pods")
    ]
    pods: list[Leaving]
    stay: Annotated[list[str], Meta(description="pods that stay, such as a DaemonSet's")]
    why: Annotated[list[Why], Meta(description="why pods have no node")]


class Config(Answer):
    """The result of a configuration."""

    config: Annotated[str, Meta(description="its file")]
    placed: int
    left_out: Annotated[int, Meta(description="pods that belong to their nodes")]
    pending: Annotated[dict[str, str], Meta(description="by pod, why it has no node")]
    nodes_used: int
    mean: Annotated[dict[str, float], Meta(description="by resource, the nodes' mean requested share")]
    imbalance: Annotated[dict[str, float], Meta(description="the standard deviation of that")]
    nodes: Annotated[dict[str, str], Meta(description="by pod, its node")]


class Compare(Answer):
    """`compare`: all pods placed again, by each configuration."""

    question: Literal["compare"]
    answer: Verdict
    configs: list[Config]
    differing: Annotated[
        dict[str, list[str]], Meta(description="by configuration, the pods that it places otherwise")
    ]


class OneFewer(Answer):
    """What is missing with one node fewer."""

    pod: Pod
    message: Message


class Size(Answer):
    """`size`: the cheapest nodes on which all pods fit."""

    question: Literal["size"]
    answer: Verdict
    nodes: Annotated[dict[str, int] | None, Meta(description="by type, how many; null: no number is enough")]
    price: float
    lower_bound: Annotated[float, Meta(description="no choice can have a lower price")]
    is_proven_cheapest: bool
    is_proven_impossible: bool
    cheaper_tried: Annotated[int, Meta(description="how many cheaper choices were tried")]
    placements_tried: int
    one_fewer: Annotated[dict[str, OneFewer], Meta(description="by type")]
    pods: Annotated[int, Meta(description="how many, without DaemonSets'")]
    missing: Annotated[dict[str, str], Meta(description="by pod, why it would have no node")]
    missing_on: Annotated[dict[str, int], Meta(description="by type, the nodes on which that was seen")]


class LongWait(Answer):
    """A wait in a replay: from when the pod arrived, or was evicted, until it had a node."""

    pod: Pod
    from_seconds: Annotated[float, Meta(description="since the trace began")]
    seconds: float
    node: Annotated[str | None, Meta(description="null: it never got one")]
    causes: Annotated[list[CauseOfWait], Meta(description="one after the other")]


class Replayed(Answer):
    """The figures of a configuration."""

    config: Annotated[str, Meta(description="its file")]
    complete: Annotated[bool, Meta(description="false if it was broken off")]
    arrived: int
    placed: int
    pending: int
    gave_up: Annotated[int, Meta(description="pods that were deleted before they had a node")]
    evictions: int
    wait_seconds: Annotated[
        dict[str, float | None], Meta(description="`p50`, `p95` and `p99`; null: it never ends")
    ]
    waited_for: Annotated[
        list[Waited], Meta(description="by pods that weren't placed at once; the longest first")
    ]
    longest_waits: Annotated[list[LongWait], Meta(description="no more than 1,000")]
    allocated_percent: Annotated[
        dict[str, dict[str, float]], Meta(description="by resource: `mean`, `peak` and `end`")
    ]
    nodes_used: Annotated[dict[str, float], Meta(description="`mean` and `peak`")]
    fragmentation_percent: float
    ended_at_seconds: float
    decisions: int
    failed_decisions: int
    first_error: str
    decisions_per_second: float


class Replay(Answer):
    """`replay`: what became of a trace's pods."""

    question: Literal["replay"]
    answer: Verdict
    configs: list[Replayed]


ANSWERS: tuple[type[Answer], ...] = (Why, Pending, Past, Try, Room, Drain, Size, Compare, Replay)


def type_of(answer: dict[str, Any]) -> type[Answer]:
    """The type of an answer. `why` has three."""
    if answer["question"] == "why":
        return Why if "pod" in answer else Past if "waits" in answer else Pending
    return next(each for each in ANSWERS if each.__name__.lower() == answer["question"])


def schema() -> dict[str, Any]:
    """The JSON Schema of all answers. Further fields may come, so they are not forbidden."""
    refs, parts = msgspec.json.schema_components(ANSWERS, ref_template="#/$defs/{name}")
    for part in parts.values():
        part.pop("additionalProperties", None)
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, "title": "Answers of poller", "anyOf": list(refs), "$defs": parts}


INTRODUCTION = """\
# Answers as JSON

With `-o json`, a question prints one JSON object. These are its fields; [a JSON Schema](answers.schema.json)
says the same. A field keeps its name and type between releases; new ones may come, so ignore those that you
don't know. A field with a ? may be missing. Texts for people may change their words at any time: read
`lacks`, `outcome` and the like in their place. Amounts of cpu are in thousandths, those of memory in bytes.

Standard output is empty if there is no answer (exit status 1), and if the command line, a configuration or a
policy is wrong (2). The reason is then on standard error.
"""

COLUMNS = ["| field | is | |", "| --- | --- | --- |"]


def page() -> str:
    """The page with all fields."""
    parts = schema()["$defs"]
    return INTRODUCTION + "".join(f"\n{text}" for text in map(_section, parts.values()))


def _section(part: dict[str, Any]) -> str:
    rows = [
        f"| `{name}`{'' if name in part['required'] else ' ?'} | {_kind(field)} | {_said(field)} |"
        for name, field in part["properties"].items()
    ]
    return "\n".join(
        [
            f"## {part['title']}",
            "",
            part["description"],
            "",
            "| field | is | |",
            "| --- | --- | --- |",
            *rows,
            "",
        ]
    )


def _said(field: dict[str, Any]) -> str:
    return str(field.get("description", ""))


def _kind(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(map(_kind, field["anyOf"]))
    if "enum" in field:
        return " or ".join(f"`{each}`" for each in sorted(field["enum"]))
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if field["type"] == "array":
        return f"list of {_kind(field['items'])}"
    if field["type"] == "object":
        return f"object of {_kind(field['additionalProperties'])}"
    return str(field["type"])


def files() -> Iterator[tuple[Path, str]]:
    """The schema and the page, each with its content."""
    yield SCHEMA, json.dumps(schema(), indent=1) + "\n"
    yield PAGE, page()


if __name__ == "__main__":
    for file, content in files():
        file.write_text(content)
