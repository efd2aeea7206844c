"""All extenders of a configuration, called one after the other.

Source: findNodesThatPassExtenders and prioritizeNodes in pkg/scheduler/schedule_one.go
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lib.kube.objects import Pod
from lib.scheduling.status import ExtenderError, Status

if TYPE_CHECKING:
    from lib.scheduling.cache import Cache
    from lib.scheduling.extender import Extender
    from lib.scheduling.node_info import NodeInfo
    from lib.scheduling.preemption.victims import Victims

log = logging.getLogger(__name__)


class Extenders:
    """All extenders; the ignorable ones come last.

    If an ignorable extender fails, it is skipped, and `warn` is called. Other failures raise ExtenderError.
    """

    def __init__(
        self, extenders: "Iterable[Extender]" = (), warn: Callable[[str], None] = log.warning
    ) -> None:
        self._extenders = sorted(extenders, key=lambda extender: extender.ignorable)
        self._warn = warn

    def __bool__(self) -> bool:
        return bool(self._extenders)

    @property
    def ignored_resources(self) -> frozenset[str]:
        """The resources that NodeResourcesFit ignores, because an extender manages them."""
        return frozenset().union(*(extender.ignored_resources for extender in self._extenders))

    def filter(self, pod: Pod, nodes: "Sequence[NodeInfo]") -> dict[str, tuple[str, Status]]:
        """By the name of each rejected node: the extender that rejected it, and why."""
        refused: dict[str, tuple[str, Status]] = {}
        for extender in self._interested(pod):
            left = [node for node in nodes if node.name not in refused]
            if extender.filter_verb and left:
                with self._going_on_without(extender):
                    for name, status in extender.filter(pod, left).items():
                        refused[name] = extender.url_prefix, status
        return refused

    def prioritize(self, pod: Pod, nodes: "Sequence[NodeInfo]") -> dict[str, dict[str, int]]:
        """By extender, nodes' scores by name. As in kube-scheduler, a failing extender gives no scores."""
        scores = {}
        for extender in self._interested(pod):
            if extender.prioritize_verb:
                try:
                    scores[extender.url_prefix] = extender.prioritize(pod, nodes)
                except ExtenderError as error:
                    self._warn(f"{error}; going on without its scores")
        return scores

    def process_preemption(
        self, pod: Pod, candidates: "Mapping[str, Victims]", cache: "Cache"
    ) -> "Mapping[str, Victims]":
        """The candidates for preemption to which all extenders agree, by node."""
        for extender in self._interested(pod):
            if extender.preempt_verb and candidates:
                with self._going_on_without(extender):
                    candidates = extender.process_preemption(pod, candidates, cache)
        return candidates

    def bind(self, pod: Pod, node_name: str) -> bool:
        """Let the extender that binds pods bind this one; False if there is none, or it is skipped."""
        for extender in self._interested(pod):
            if extender.bind_verb:
                with self._going_on_without(extender):
                    extender.bind(pod, node_name)
                    return True
        return False

    def _interested(self, pod: Pod) -> "list[Extender]":
        return [extender for extender in self._extenders if extender.is_interested(pod)]

    @contextmanager
    def _going_on_without(self, extender: "Extender") -> Iterator[None]:
        try:
            yield
        except ExtenderError as error:
            if not extender.ignorable:
                raise
            self._warn(f"{error}; going on without it")
