"""Replays a trace with one configuration, and takes its figures."""

from collections.abc import Callable, Iterator, Sequence

from lib.kube.objects import Node, Pod
from lib.kube.system import MACHINE
from lib.questions.replay.figures import Figures, typical_of
from lib.questions.replay.trace import Arrival, Kinds, Trace, capacity, main_resource, requested
from lib.questions.replay.world import World
from lib.questions.snapshot import Snapshot
from lib.scheduling.framework.interface import Profile


class Replaying:
    """A replay. name: the configuration's. kinds: those of the trace's pods. QuestionError when the nodes
    have nothing that pods request.

    note_placed: is told of each pod that got a node.
    """

    def __init__(
        self,
        name: str,
        profiles: Sequence[Profile],
        snapshot: Snapshot,
        trace: Trace,
        kinds: Kinds,
        note_placed: Callable[[Arrival, Pod, float], object],
    ) -> None:
        asked, there = requested(kinds), capacity(snapshot.of(Node))
        main = main_resource(asked, there)
        shown = {each: amount for each, amount in there.items() if each in {main, *asked}}
        self.figures = Figures(name, shown, main, typical_of(kinds), note_placed)
        self._profiles, self._snapshot, self._trace = profiles, snapshot, trace

    def steps(self, seed: int) -> Iterator[None]:
        """Yields for each pod that has arrived. At the end, also of an iteration that is broken off, the
        figures are there.
        """
        figures = self.figures
        for plugin in {id(each): each for profile in self._profiles for each in profile.plugins}.values():
            if prepare := getattr(plugin, "prepare", None):
                prepare(each.like for each in self._trace.arrivals)
        for pod in self._snapshot.of(Pod):
            if pod.spec.node_name:
                figures.running_pod(pod)
        world = World(self._snapshot, self._profiles, MACHINE.random(seed), figures)
        began = MACHINE.monotonic()
        try:
            for arrived in world.run(self._trace):
                figures.tick(arrived, len(world.queue), world.now)
                for _ in arrived:
                    yield
            figures.complete = True
        finally:
            figures.end(world.cache, world.decisions, MACHINE.monotonic() - began)
