"""Replays a trace with one configuration, and takes its figures."""

from collections.abc import Iterator, Mapping, Sequence

from lib.kube.objects import Node, Pod
from lib.kube.source import MAIN_SCHEDULER
from lib.kube.system import MACHINE
from lib.questions.replay.figures import Figures, typical_of
from lib.questions.replay.trace import Kinds, Trace, capacity, main_resource, requested
from lib.questions.replay.world import World
from lib.questions.snapshot import Snapshot
from lib.scheduling.framework.interface import Plugin, Profile
from lib.scheduling.plugins.registry import default_profile


def profile_of(policy: Sequence[Plugin], weights: Mapping[str, int]) -> Profile:
    """The default plugins, of which only the filters count, with a policy's, whose scores alone count.

    weights: by plugin name.
    """
    plugins = default_profile(MAIN_SCHEDULER, *policy).plugins
    return Profile(MAIN_SCHEDULER, plugins, weights, percentage_of_nodes_to_score=100)


class Replaying:
    """A replay. name: the configuration's. kinds: those of the trace's pods. seed: of ties between nodes.

    QuestionError when the nodes have nothing that pods request.
    """

    def __init__(
        self,
        name: str,
        profiles: Sequence[Profile],
        snapshot: Snapshot,
        trace: Trace,
        kinds: Kinds,
        seed: int,
    ) -> None:
        asked, there = requested(kinds), capacity(snapshot.of(Node))
        main = main_resource(asked, there)
        shown = {each: amount for each, amount in there.items() if each in {main, *asked}}
        self.figures = Figures(name, shown, main, typical_of(kinds))
        for pod in snapshot.of(Pod):
            if pod.spec.node_name:
                self.figures.running_pod(pod)
        self.world = World(snapshot, profiles, MACHINE.random(seed), self.figures)
        self._profiles, self._trace = profiles, trace

    def steps(self) -> Iterator[None]:
        """Yields for each pod that has arrived. At the end, also of an iteration that is broken off, the
        figures are there.
        """
        figures, world = self.figures, self.world
        for plugin in {id(each): each for profile in self._profiles for each in profile.plugins}.values():
            if prepare := getattr(plugin, "prepare", None):
                prepare(each.like for each in self._trace.arrivals)
        began = MACHINE.monotonic()
        try:
            for arrived in world.run(self._trace):
                figures.tick(arrived, len(world.queue), world.now)
                for _ in arrived:
                    yield
            figures.complete = True
        finally:
            figures.end(world.cache.nodes.values(), MACHINE.monotonic() - began)
