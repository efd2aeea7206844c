"""Which pods a question is about: NAME, NAMESPACE/NAME, TYPE/NAME, a label selector, or all that wait."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lib.kube.objects import LabelSelector, Pod, Requirement
from lib.questions.errors import CommandLineError, QuestionError
from lib.questions.snapshot import Snapshot
from lib.scheduling.text import names
from lib.scheduling.workloads import controller_of

KINDS = {
    "pod": ("pods", "po"),
    "deployment": ("deployments", "deploy", "deployment.apps"),
    "replicaset": ("replicasets", "rs", "replicaset.apps"),
    "statefulset": ("statefulsets", "sts", "statefulset.apps"),
    "daemonset": ("daemonsets", "ds", "daemonset.apps"),
    "job": ("jobs", "job.batch"),
    "cronjob": ("cronjobs", "cj", "cronjob.batch"),
    "replicationcontroller": ("replicationcontrollers", "rc"),
}
"""The types that kubectl knows, each with its other names."""

TYPES = {name: kind for kind, others in KINDS.items() for name in (kind, *others)}

THROUGH = {"deployment": "ReplicaSet", "cronjob": "Job"}
"""By type, the kind of the controllers that create its pods; their names begin with its name."""


@dataclass(frozen=True)
class Subject:
    """What is asked about. kind: "" for all. namespace: "" for all namespaces."""

    namespace: str
    kind: str = ""
    name: str = ""

    def __str__(self) -> str:
        """`deployment default/web`."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @property
    def where(self) -> str:
        """Of which pods an answer is: ` in namespace default`; "" for all."""
        if self.kind:
            return f" of {self}"
        return f" in namespace {self.namespace}" if self.namespace else ""

    def controls(self, namespace: str, kind: str, name: str) -> bool:
        """Whether it is this controller, or made it."""
        if self.namespace not in ("", namespace):
            return False
        if not self.kind:
            return True
        made = THROUGH.get(self.kind)
        if kind.lower() == (made or self.kind).lower():
            return bool(re.fullmatch(re.escape(self.name) + ("-[^-]+" if made else ""), name))
        return False

    def covers(self, pod: Pod) -> bool:
        """Whether a pod is meant."""
        controller = controller_of(pod)
        if not self.kind:
            return self.namespace in ("", pod.metadata.namespace)
        if self.kind == "pod":
            return (pod.metadata.namespace, pod.metadata.name) == (self.namespace, self.name)
        return controller is not None and self.controls(
            controller.namespace, controller.kind, controller.name
        )


def subject(words: Sequence[str], namespace: str) -> Subject:
    """What is meant by NAME, NAMESPACE/NAME, TYPE/NAME or TYPE NAME; nothing means all pods.

    namespace: that of names without one; "" for all. QuestionError when it is none of these.
    """
    if not words:
        return Subject(namespace)
    if len(words) > 2 or (len(words) == 2 and words[0].lower() not in TYPES):
        raise CommandLineError(f"why takes one POD or TYPE/NAME, such as deploy/web; these are {len(words)}")
    first, slash, name = "/".join(words).rpartition("/")
    if not slash:
        return Subject(namespace, "pod", name)
    if kind := TYPES.get(first.lower()):
        return Subject(namespace, kind, name)
    return Subject(first, "pod", name)


_TERM = re.compile(
    r"\s*(?:(?P<no>!)?\s*(?P<has>[\w./-]+)|(?P<key>[\w./-]+)\s*(?P<sign>==?|!=)\s*(?P<value>[\w.-]*)"
    r"|(?P<of>[\w./-]+)\s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\))\s*(?:,|$)"
)


def parse_selector(text: str) -> LabelSelector:
    """A label selector as kubectl takes it: `app=web,tier!=x,zone in (a,b),!old`. QuestionError."""
    found, at = [], 0
    while at < len(text):
        term = _TERM.match(text, at)
        if not term:
            raise CommandLineError(f"-l {text}: write labels as app=web,tier!=db,zone in (a,b)")
        at = term.end()
        if term["key"]:
            operator, values = "NotIn" if term["sign"] == "!=" else "In", [term["value"]]
        elif term["of"]:
            operator = "In" if term["set"] == "in" else "NotIn"
            values = [value.strip() for value in term["values"].split(",")]
        else:
            operator, values = "DoesNotExist" if term["no"] else "Exists", []
        found.append(Requirement(term["key"] or term["of"] or term["has"], operator, tuple(values)))
    return LabelSelector({}, tuple(found))


def find_pods(snapshot: Snapshot, meant: Subject) -> list[Pod]:
    """The pods that are meant. QuestionError when a pod is named that isn't there."""
    pods = snapshot.of(Pod)
    found = [pod for pod in pods if meant.covers(pod)]
    if not found and meant.kind == "pod":
        elsewhere = sorted({pod.metadata.namespace for pod in pods if pod.metadata.name == meant.name})
        hint = f"; there is one in {names(elsewhere)}" if elsewhere else ""
        raise QuestionError(
            f"there is no pod {meant.name} in namespace {meant.namespace} that hasn't finished{hint}"
        )
    return found
