"""What comes back from a policy's functions and methods, and what is said if it is of the wrong kind."""

import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set, Sized
from pathlib import Path
from reprlib import repr as short
from typing import Any

from lib.kube.objects import Pod
from lib.kube.resource_claims import UndoClaim
from lib.scheduling.framework.interface import DependsOn, PostFilterResult
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.status import BadAnswerError, Status

IN_PLACE = "None: it changes the scores that it gets"


def wrong(function: Callable[..., Any], answer: object, wanted: str, about: str = "") -> BadAnswerError:
    """The error that says which function of a policy returned what, and what is wanted. about: for what."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    where = f" at {Path(code.co_filename).name}:{code.co_firstlineno}" if code else ""
    own = getattr(function, "__qualname__", "the function")
    if answer is None:
        wanted += "; is there a way through the function without a `return`?"
    return BadAnswerError(f"{own}{where} returned {short(answer)}{about and f' {about}'}, not {wanted}")


def is_status(answer: object) -> bool:
    """Whether it is None or a Status."""
    return answer is None or isinstance(answer, Status)


def is_several(answer: object) -> bool:
    """Whether it is a list or the like: a generator, too, but no text and no dict."""
    return isinstance(answer, Iterable) and not isinstance(answer, str | bytes | Mapping)


def is_hashable(answer: object) -> bool:
    """Whether it can be compared, and so can all that it has in it."""
    try:
        hash(answer)
    except TypeError:
        return False
    return isinstance(answer, Hashable)


def _allows_nodes(answer: object, _: object) -> bool:
    return is_status(answer) or (isinstance(answer, Set) and all(isinstance(name, str) for name in answer))


def _preempts(answer: object, _: object) -> bool:
    if isinstance(answer, PostFilterResult):
        return all(isinstance(victim, Pod) for victim in answer.victims)
    return is_status(answer)


def _undoes(answer: object, _: object) -> bool:
    is_list = isinstance(answer, Sequence) and all(isinstance(undo, UndoClaim) for undo in answer)
    return is_list or answer is None


def _of_each(answer: object, nodes: Sized) -> bool:
    return isinstance(answer, Sequence) and len(answer) == len(nodes)


Holds = Callable[[Any, Any], bool]

STATUS = (lambda answer, _: is_status(answer)), "None or a Status"
TRUTH = (lambda answer, _: isinstance(answer, bool)), "True or False"
SIGNATURE = (lambda answer, _: is_hashable(answer)), "text, a number or a tuple of these"
OF_EACH = _of_each, "a list with an answer for each node"

WANTED: Mapping[str, tuple[Holds, str]] = {
    **dict.fromkeys(("pre_enqueue", "filter", "pre_score", "reserve", "permit", "pre_bind", "bind"), STATUS),
    **dict.fromkeys(("queueing_hint", "helps_owners_alone"), TRUTH),
    **dict.fromkeys(("sign_pod", "sign_for_hint"), SIGNATURE),
    **dict.fromkeys(("filter_nodes", "score_nodes"), OF_EACH),
    "pre_filter": (_allows_nodes, "None, a Status, or a set of names of nodes"),
    "post_filter": (_preempts, "None, a Status, or a PostFilterResult whose victims are pods"),
    "score": ((lambda answer, _: isinstance(answer, int)), "a whole number"),
    "normalize_score": ((lambda answer, scores: answer is None or answer is scores), IN_PLACE),
    "annotate": ((lambda answer, _: isinstance(answer, Mapping)), "a dict of strings"),
    "unreserve": (_undoes, "None or a list of UndoClaim"),
    "post_bind": ((lambda answer, _: answer is None), "None"),
    "explain": ((lambda answer, _: isinstance(answer, str) or is_several(answer)), "a line, or several"),
    "remedies": ((lambda answer, _: is_several(answer)), "a Remedy for each change"),
}
"""By a method's name: whether it may return this, given its last argument; and the words for what it may."""


ATTRIBUTES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "events_to_register": (
        lambda events: is_several(events) and all(isinstance(event, str) for event in events),
        "a list of names of events",
    ),
    "reads": (lambda reads: isinstance(reads, DependsOn), "DependsOn.NODES or DependsOn.PODS"),
    "resources": (lambda weights: isinstance(weights, Mapping), "a dict of weights"),
}
"""By a plugin's attribute: whether it may be this, and the words for what it may be."""


def checking(kind: type, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a policy's class that raises BadAnswerError when it returns something of the wrong kind."""
    if name not in WANTED:
        return function
    holds, wanted = WANTED[name]

    def method(self: Any, *given: Any, **named: Any) -> Any:
        answer = function(self, *given, **named)
        last = [*given, *named.values()][-1]
        if not holds(answer, last):
            about = f"for node {last.name}" if isinstance(last, NodeInfo) else ""
            raise wrong(getattr(kind, name), answer, wanted, about)
        return answer

    return method
