"""The process of one hand-in: it loads a policy, and answers calls of its methods.

It has a copy of the cluster, which follows the grader's. Whatever a policy does to the copy, or to this
process, it changes nothing but its own answers.
"""

import os
import random
import socket
import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from lib.kube.changes import Change, Kind
from lib.kube.objects import Pod
from lib.questions.snapshot_cache import cache_of
from lib.scheduling.cache import Cache
from lib.scheduling.framework.interface import Profile
from lib.scheduling.framework.runtime import Framework, for_nodes
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.pod_life import pod_key
from lib.scheduling.result_cache import check_scores
from lib.scheduling.status import BadAnswerError, CycleState, Status, checked
from lib.service.policies import PolicyError, load_policies
from scripts.grading.confinement import confine, limit
from scripts.grading.messages import (
    MAX_ANSWER,
    MAX_REASON,
    MAX_REASONS,
    OUT_OF_MEMORY,
    Answer,
    Call,
    Plugin,
    Setup,
    Told,
    encoded,
    read,
    snapshot_of,
)

MAX_STATES = 16
"""So many CycleStates are kept. An older one isn't asked about any more."""

FAR = 2**53
"""A score that is normalized later is a whole number nearer to 0 than this."""


class Replica:
    """A copy of the grader's cluster."""

    def __init__(self, setup: Setup) -> None:
        snapshot = snapshot_of(setup.objects, setup.forbidden)
        self.cache: Cache = cache_of(snapshot)
        self.pods: dict[str, Pod] = {pod_key(each): each for each in snapshot.of(Pod)}

    def follow(self, call: Call) -> None:
        """Put pods where they are in the grader's cluster, in the same order."""
        for each in call.new:
            pod: Pod = read(each, Pod)
            self.pods[pod_key(pod)] = pod
        there = {name: [self.pods[uid] for uid in uids] for name, uids in call.changed.items()}
        for name, pods in there.items():
            kept = {id(pod) for pod in pods}
            for pod in self.cache.nodes[name].pods:
                if id(pod) not in kept:
                    self._remove(pod)
        for name, pods in there.items():
            node = self.cache.nodes[name]
            present = {id(pod) for pod in node.pods}
            for pod in pods:
                if id(pod) not in present:
                    self._add(pod, name)
            node.pods = pods

    def _remove(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self.cache.apply(Change(Kind.DELETED, pod))
        else:
            self.cache.forget(pod)

    def _add(self, pod: Pod, node_name: str) -> None:
        if pod.spec.node_name:
            self.cache.apply(Change(Kind.ADDED, pod))
        else:
            self.cache.assume(pod, node_name)


class Answering:
    """Calls the plugins of a policy."""

    def __init__(self, setup: Setup) -> None:
        (policy,) = load_policies([Path(setup.policy)])
        self._plugins, self.weight = policy.plugins, policy.weight
        self._replica = Replica(setup)
        self._framework = Framework(Profile("", policy.plugins, policy.weights))
        self._states: OrderedDict[int, CycleState] = OrderedDict()

    def plugins(self) -> list[Plugin]:
        """What each can do."""
        return [Plugin(each.name, _methods(each)) for each in self._plugins]

    def answer(self, call: Call) -> Answer:
        """Call a method. What goes wrong in it is told in poller's words."""
        self._replica.follow(call)
        try:
            answer = self._call(call, self._plugins[call.plugin])
        except MemoryError:
            raise
        except BaseException as error:  # whatever a policy raises, it has failed, and the process goes on
            answer = Answer(error=self._framework.blame(error))
        answer.number = call.number
        return answer

    def _call(self, call: Call, plugin: Any) -> Answer:
        self._framework.running = plugin
        if call.method == "prepare":
            plugin.prepare([read(each, Pod) for each in call.pods])
            return Answer()
        pod, cache = self._replica.pods[call.pod], self._replica.cache
        nodes = [cache.nodes[name] for name in call.nodes]
        state = self._state(call.cycle)
        match call.method:
            case "pre_filter":
                allowed = plugin.pre_filter(state, pod, cache)
                if isinstance(allowed, Set):
                    return Answer(names=[str(each) for each in allowed])
                return Answer(status=_told(allowed))
            case "filter":
                return Answer(statuses=[_told(each) for each in self._of_each(plugin, call, state, pod)])
            case "pre_score":
                return Answer(status=_told(plugin.pre_score(state, pod, cache, nodes)))
            case "score":
                scores = zip(call.nodes, self._of_each(plugin, call, state, pod), strict=True)
                return Answer(scores={name: _score(plugin, each, name) for name, each in scores})
            case "normalize_score":
                plugin.normalize_score(state, pod, call.scores)
                check_scores(call.scores.values(), call.scores)
                return Answer(scores={str(name): int(each) for name, each in call.scores.items()})
        raise BadAnswerError(f"{call.method} is not called")

    def _of_each(self, plugin: Any, call: Call, state: CycleState, pod: Pod) -> Sequence[Any]:
        """What a plugin answers for the nodes that are asked about."""
        cache = self._replica.cache
        nodes = NodeSlice(cache, [cache.node_index[name] for name in call.nodes])
        return for_nodes(plugin, call.method)(state, pod, nodes)

    def _state(self, cycle: int) -> CycleState:
        state = self._states.setdefault(cycle, {})
        while len(self._states) > MAX_STATES:
            self._states.popitem(last=False)
        return state


def _methods(plugin: Any) -> list[str]:
    found = [each for each in dir(plugin) if not each.startswith("_")]
    return [each.removesuffix("_nodes") for each in found if callable(getattr(plugin, each, None))]


def _told(answer: Status | None) -> Told | None:
    status = checked(answer)
    if not status:
        return None
    return Told(status.code.value, [each[:MAX_REASON] for each in status.reasons[:MAX_REASONS]])


def _score(plugin: Any, score: Any, node_name: str) -> int:
    if not hasattr(plugin, "normalize_score"):
        check_scores([score], [node_name])
    elif not isinstance(score, int) or not -FAR < score < FAR:
        raise BadAnswerError(
            f"score {str(score)[:50]} of node {node_name} is no whole number, or too far from 0"
        )
    return int(score)


def lines(channel: socket.socket) -> Iterator[bytes]:
    """The lines that the grader sends."""
    with channel.makefile("rb") as reader:
        yield from reader


def send(channel: socket.socket, answer: Answer) -> None:
    """Send an answer; if it is too long, that it is."""
    body = encoded(answer)
    if len(body) > MAX_ANSWER:
        body = encoded(Answer(answer.number, error=f"answered with {len(body):,} bytes, which is too much"))
    channel.sendall(body)


def serve(channel: socket.socket) -> None:
    """Load the policy, and answer until the grader has no more questions."""
    asked = lines(channel)
    setup = msgspec.json.decode(next(asked), type=Setup)
    random.seed(setup.seed)  # so that a policy's own use of `random` is repeatable
    limit(setup.seconds, setup.most_seconds, setup.mebibytes)
    confine(Path.cwd())
    try:
        answering = Answering(setup)
        send(channel, Answer(plugins=answering.plugins(), weight=answering.weight))
    except PolicyError as error:
        if isinstance(error.__cause__, MemoryError):
            raise error.__cause__ from None
        send(channel, Answer(error=str(error)))
        return
    decoder = msgspec.json.Decoder(Call)
    for line in asked:
        send(channel, answering.answer(decoder.decode(line)))


def main() -> None:
    """Serve on standard output, from which the channel is taken away: a policy may print there."""
    sys.dont_write_bytecode = True
    channel = socket.socket(fileno=os.dup(1))
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
    try:
        serve(channel)
    except MemoryError:
        with suppress(OSError):
            channel.sendall(OUT_OF_MEMORY)
    os._exit(0)  # whatever the policy has planned for the end


if __name__ == "__main__":
    main()
