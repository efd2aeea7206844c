"""What a plugin answers: success, or a status with a code and reasons; and the errors of plugins.

Source: k8s.io/kube-scheduler/framework/interface.go
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from reprlib import repr as short
from typing import Any

from lib.kube.resource_claims import ReserveClaim, UndoClaim
from lib.kube.storage import PersistentVolume, PersistentVolumeClaim

CycleState = dict[str, Any]
"""The plugins' data in one pod's cycle. Plugins use keys that begin with their name."""

MAX_NODE_SCORE = 100
"""The highest score of a node; the lowest is 0."""


class Code(Enum):
    """The codes of a plugin's status other than success, with kube-scheduler's names."""

    UNSCHEDULABLE = "Unschedulable"
    """Not now: a change in the cluster, or preemption, may help."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """Not here; to remove other pods would not help."""
    WAIT = "Wait"
    """For Permit and PreBind: not yet, call again, first at the next tick."""
    SKIP = "Skip"
    """Nothing to do for this pod: don't call the plugin again in this cycle. For Bind: ask the next one."""
    DEFAULT_BIND = "post"
    """For Bind: poller POSTs the binding."""


Assumed = PersistentVolume | PersistentVolumeClaim | ReserveClaim
"""What PreBind waits for: a volume or a claim as it is to be written."""


@dataclass(frozen=True)
class Status:
    """A plugin's answer: a code, and reasons for people to read. None stands for success."""

    code: Code
    reasons: tuple[str, ...] = ()
    limit: float = 0.0
    """With WAIT: after so many seconds the pod is rejected."""
    writes: tuple[Assumed, ...] = ()
    """With PreBind's WAIT: the claims and volumes that poller writes. After that, PreBind is called again."""
    undo: tuple[UndoClaim, ...] = ()
    """With PostFilter's rejection: what is written of claims."""
    lacks: frozenset[str] = field(default=frozenset(), compare=False)
    """With Filter's rejection: the resources of which the node has too little left. So a search for victims
    knows how many pods must leave at least."""


@dataclass(frozen=True, eq=False)
class Rejection:
    """The plugin that rejected a node, and its status. Many nodes share one."""

    plugin: str
    status: Status

    @property
    def reason(self) -> str:
        """Its reasons in one line."""
        return ", ".join(self.status.reasons)


@lru_cache(4096)
def rejection_by(plugin: str, status: Status) -> Rejection:
    """A plugin's rejection: the same object for equal ones, so that counting them is fast."""
    return Rejection(plugin, status)


def unschedulable(*reasons: str) -> Status:
    """A rejection that a change in the cluster, or preemption, may resolve."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """A rejection that preemption can't resolve."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def wait(
    *reasons: str,
    limit: float = 900.0,
    writes: Sequence[Assumed] = (),
) -> Status:
    """Not yet; after `limit` seconds the pod is rejected. writes: what poller writes first."""
    return Status(Code.WAIT, reasons, limit, tuple(writes))


SKIP = Status(Code.SKIP)
DEFAULT_BIND = Status(Code.DEFAULT_BIND)


class BadAnswerError(Exception):
    """A plugin returned something that its extension point doesn't allow. The text says what, and where."""


class PluginError(Exception):
    """A plugin failed. The text says which plugin, where, and why."""


class ExtenderError(PluginError):
    """An extender can't be reached, failed, or sent an invalid answer. The text names its URL."""


class NodeError(PluginError):
    """Filter failed on a node, as it does in kube-scheduler. It ends the attempt.

    It doesn't end a search for victims, as they may be found on another node. If they aren't, PostFilter
    raises it, and the pod is unschedulable.
    """


class Interruption(BaseException):
    """poller itself ends what it does, such as on a signal. A plugin's own exceptions never end poller."""


def checked(answer: Status | None) -> Status | None:
    """Check a plugin's answer: BadAnswerError if it is neither None nor a Status with a code and reasons."""
    if answer is None or answer is SKIP:
        return answer
    if not isinstance(answer, Status):
        raise BadAnswerError(f"{short(answer)} is neither None nor a Status")
    if not isinstance(answer.code, Code) or not isinstance(answer.reasons, tuple | list):
        raise BadAnswerError(f"{short(answer)} needs a Code and a tuple of reasons")
    check_texts(answer.reasons, "a reason")
    if not isinstance(answer.lacks, frozenset | set):
        raise BadAnswerError(f"{short(answer.lacks)} is given for lacks, but isn't a set")
    if not isinstance(answer.limit, int | float):
        raise BadAnswerError(f"{short(answer.limit)} is given for limit, but isn't a number")
    if not all(isinstance(write, Assumed | UndoClaim) for write in (*answer.writes, *answer.undo)):
        raise BadAnswerError(f"{short(answer)} is to write something other than claims and volumes")
    return answer


def check_texts(texts: Iterable[object], what: str) -> None:
    """BadAnswerError if one of the texts isn't text that UTF-8 can encode. what: such as "a reason"."""
    for text in texts:
        if not isinstance(text, str) or not (text.isascii() or _is_text(text)):
            raise BadAnswerError(f"{short(text)} is given as {what}, but isn't text")


def _is_text(text: str) -> bool:
    """Whether UTF-8 can encode a string: a Python string may hold half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def encodable(text: str) -> str:
    """The text, with an escape such as `\\udce9` for each half of a surrogate pair: UTF-8 can't encode it.

    Python has such text for the name of a file that isn't UTF-8.
    """
    return text.encode(errors="backslashreplace").decode()
