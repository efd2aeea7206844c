"""Asks the plugins what their reasons leave out: names and values of rejections, and what may help."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from reprlib import repr as short
from typing import TypeVar

from lib.kube.objects import Pod
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision
from lib.scheduling.explaining.registry import adviser_of, explainer_of
from lib.scheduling.framework.interface import ExplainPlugin, Profile, Remedy, RemedyPlugin, implements
from lib.scheduling.framework.runtime import Framework, raise_if_interrupted
from lib.scheduling.read_only import original
from lib.scheduling.status import BadAnswerError, Rejection

T = TypeVar("T")

log = logging.getLogger(__name__)


class Explaining:
    """The plugins of a profile, asked about a decision. cache: the cluster at the time of the decision.

    A plugin that fails to answer is named, and changes no answer.
    """

    def __init__(self, decision: Decision, profile: Profile, cache: Cache) -> None:
        self._decision, self._cache, self._framework = decision, cache, Framework(profile)
        self._plugins = profile.plugins
        self._explainers: dict[str, ExplainPlugin | None] = {}  # by plugin
        self._with_remedies = [
            adviser for plugin in profile.plugins if implements(adviser := adviser_of(plugin), RemedyPlugin)
        ]

    def details(self) -> dict[str, list[str]]:
        """By rejected node, a line for each detail; none if the reasons say everything."""
        return {name: self._lines(name, rejection) for name, rejection in self._decision.rejected.items()}

    def _lines(self, node_name: str, rejection: Rejection) -> list[str]:
        plugin = self._framework.running = self._explainer(rejection.plugin)
        if plugin is None:
            return []
        state, pod, node = self._decision.state, self._decision.pod, self._cache.nodes[node_name]
        try:
            said = plugin.explain(state, pod, self._cache, node, rejection.status)
            return [_checked(line, str, "explain") for line in ([said] if isinstance(said, str) else said)]
        except BaseException as error:
            raise_if_interrupted(error)
            return [self._framework.blame(error)]

    def _explainer(self, name: str) -> ExplainPlugin | None:
        """What explains a plugin. A policy's functions are several plugins of one name: one may explain."""
        if name not in self._explainers:
            of_name = (explainer_of(plugin) for plugin in self._plugins if plugin.name == name)
            explaining = (explainer for explainer in of_name if implements(explainer, ExplainPlugin))
            self._explainers[name] = next(explaining, None)
        return self._explainers[name]

    def remedies(self) -> Iterator[Remedy]:
        """What may help, as all plugins say, whichever of them rejected the nodes."""
        state, pod = self._decision.state, self._decision.pod
        rejected = {name: rejection.status for name, rejection in self._decision.rejected.items()}
        for plugin in self._with_remedies:
            self._framework.running = plugin
            try:
                for said in [*plugin.remedies(state, pod, self._cache, rejected)]:
                    remedy = _checked(said, Remedy, "remedies")
                    if (edited := remedy.edit(pod)) is not None:  # it may fail, too
                        _checked(edited, Pod, "a remedy's edit")
                    yield replace(remedy, removed=tuple(map(original, remedy.removed)))
            except BaseException as error:
                raise_if_interrupted(error)
                log.warning("%s", self._framework.blame(error))


def _checked(said: object, kind: type[T], function: str) -> T:
    if not isinstance(said, kind):
        raise BadAnswerError(f"{function} returned {short(said)}, which is not a {kind.__name__}")
    return said
