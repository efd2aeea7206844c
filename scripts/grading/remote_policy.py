"""A policy in a process of its own, as plugins for the grader's scheduler."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from lib.kube.bounded_files import TooMuchError, read_at_most
from lib.kube.objects import UNREADABLE, Pod
from lib.questions.snapshot import Snapshot
from lib.scheduling.cache import Cache
from lib.scheduling.framework import interface
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.pod_life import pod_key
from lib.scheduling.status import Code, CycleState, PluginError, Status
from lib.service.policies import BUILT_IN, Policy
from scripts.grading import messages
from scripts.grading.messages import (
    CALLS,
    MAX_ANSWER,
    MAX_REASON,
    MAX_REASONS,
    Answer,
    Call,
    Setup,
    Told,
    encoded,
)
from scripts.servers.process import ROOT, ending_with_all_it_starts

GRACE = 15.0
"""Seconds of waiting beyond the limit of computing time: the machine may be busy."""

MAX_POLICY = 1024 * 1024
"""The most bytes of a policy's file."""

MAX_PLUGINS, MAX_NAME = 20, 100
"""How many plugins a policy may have, and the most characters of their names."""

CYCLE = "scripts.grading"
"""The key of a cycle's number in the CycleState."""

SCORING = ("prepare", "pre_score", "score", "normalize_score")
"""The methods that a policy is asked for if it only scores."""

OTHERS = {
    method
    for point in vars(interface).values()
    if isinstance(point, type) and point.__name__.endswith("Plugin") and point is not interface.SignPlugin
    for method in vars(point)
    if not method.startswith("_")
} - {*CALLS, "name", "filter_nodes", "score_nodes", "queueing_hint", "explain", "remedies", "annotate"}
"""Methods of extension points that decide more than which nodes fit, and how good they are."""


class PolicyProblemError(Exception):
    """A policy can't be graded on, and why."""


@dataclass(frozen=True)
class Limits:
    """What a policy may use: seconds of CPU time, mebibytes of memory."""

    seconds: int
    mebibytes: int

    @property
    def most_seconds(self) -> float:
        """For so long the grader waits for answers, all together."""
        return self.seconds + GRACE


class Conversation:
    """Asks a policy's process, within the limits. PolicyProblemError, now and ever after, when it fails."""

    def __init__(self, channel: socket.socket, process: "subprocess.Popen[str]", limits: Limits) -> None:
        self._channel, self._process, self._limits = channel, process, limits
        self._left = limits.most_seconds
        self._unread = b""
        self._decoder = msgspec.json.Decoder(Answer)
        self.problem = ""

    def ask(self, message: msgspec.Struct, number: int, what: str) -> Answer:
        """Send a message, and wait for its answer. what: what the answer is for, in words."""
        if self.problem:
            raise PolicyProblemError(self.problem)
        began = monotonic()
        try:
            answer = self._answer(message)
        except TimeoutError:
            self._fail(f"took longer than {self._limits.most_seconds:g} s by the clock, with {what}")
        except OSError:
            self._fail(self._how_it_ended(what))
        except UNREADABLE:
            self._fail(f"its process wrote into the grader's pipe, with {what}")
        self._left -= monotonic() - began
        if answer.memory:
            self._fail(f"took more than {self._limits.mebibytes} MiB of memory, with {what}")
        if answer.number != number:
            self._fail(f"its process wrote into the grader's pipe, with {what}")
        return answer

    def _answer(self, message: msgspec.Struct) -> Answer:
        until = monotonic() + self._left
        self._channel.settimeout(max(0.001, self._left))
        self._channel.sendall(encoded(message))
        while b"\n" not in self._unread:
            left = until - monotonic()
            if left <= 0:
                raise TimeoutError
            self._channel.settimeout(left)
            part = self._channel.recv(65536)
            if not part:
                raise ConnectionResetError
            self._unread += part
            if len(self._unread) > MAX_ANSWER + 65536:
                raise msgspec.DecodeError("too long")
        line, _, self._unread = self._unread.partition(b"\n")
        return self._decoder.decode(line)

    def _how_it_ended(self, what: str) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        status = self._process.returncode
        if status in (-signal.SIGXCPU, -signal.SIGKILL):
            return f"took longer than {self._limits.seconds} s of computing time, with {what}"
        if status is None:
            return f"its process closed the grader's pipe, with {what}"
        if status < 0:
            return f"its process was ended by {signal.Signals(-status).name}, with {what}"
        return f"its process ended, with {what}, and gave no answer"

    def _fail(self, problem: str) -> None:
        self.problem = problem
        raise PolicyProblemError(problem)


@contextmanager
def policy_process(policy: Path, seed: str, snapshot: Snapshot, limits: Limits) -> Iterator["RemotePolicy"]:
    """Start a process with a policy. PolicyProblemError when the policy can't be loaded, or isn't allowed.

    The process gets a copy of the file in an empty folder, and nothing of the teacher's environment: no
    kubeconfig, no tokens. What it prints goes nowhere. At the end it is killed, and all that it started.
    """
    with tempfile.TemporaryDirectory(prefix="grade-") as made:
        folder = Path(made).resolve()
        _copy(policy, folder / policy.name)
        ours, its = socket.socketpair()
        with ours, its:
            # The channel is the process's standard output until it has taken it away from there: whatever
            # else the shell starts to end the process with us doesn't hold it open.
            command = [sys.executable, "-P", "-m", "scripts.grading.policy_process"]
            environment = {
                "PATH": os.defpath,
                "HOME": made,
                "PYTHONHASHSEED": "0",
                "PYTHONPATH": str(ROOT),
                "LANG": "C.UTF-8",
            }
            with ending_with_all_it_starts(
                command, cwd=folder, env=environment, stdout=its, stderr=subprocess.DEVNULL
            ) as process:
                its.close()
                conversation = Conversation(ours, process, limits)
                yield _loaded(policy, folder, seed, snapshot, limits, conversation)


def _copy(policy: Path, to: Path) -> None:
    try:
        if policy.is_symlink():  # perhaps to a solution, or to what another has handed in
            raise PolicyProblemError("is a link to another file, and not a file")
        if policy.exists() and not policy.is_file():
            raise PolicyProblemError("is not a file")
        to.write_bytes(read_at_most(policy, MAX_POLICY))
    except TooMuchError as error:
        raise PolicyProblemError(str(error)) from None
    except OSError as error:
        raise PolicyProblemError(error.strerror or str(error)) from None


def _loaded(
    policy: Path, folder: Path, seed: str, snapshot: Snapshot, limits: Limits, conversation: Conversation
) -> "RemotePolicy":
    setup = Setup(
        policy.name,
        seed,
        limits.seconds,
        int(limits.most_seconds) + 1,
        limits.mebibytes,
        messages.told(snapshot),
        [kind.__name__ for kind in snapshot.forbidden],
    )
    answer = conversation.ask(setup, 0, "loading the file")
    if answer.error:
        raise PolicyProblemError(answer.error.replace(f"{folder}{os.sep}", "")[:MAX_REASON])
    if len(answer.plugins or ()) > MAX_PLUGINS:
        raise PolicyProblemError(f"has more than {MAX_PLUGINS} plugins")
    for each in answer.plugins or ():
        if len(each.name) > MAX_NAME:
            raise PolicyProblemError(f"the name {each.name[:MAX_NAME]} is too long")
        if each.name in BUILT_IN or not each.name:
            raise PolicyProblemError(f"{each.name} is already the name of a plugin")
        if more := sorted(OTHERS.intersection(each.methods)):
            raise PolicyProblemError(
                f"{each.name} has {more[0]}: what is graded is {', '.join(CALLS[:-1])} and {CALLS[-1]}"
            )
    if not answer.plugins or not 1 <= answer.weight <= 100:
        raise PolicyProblemError("there is nothing in it that could be graded")
    return RemotePolicy(conversation, answer.plugins, answer.weight)


class RemotePolicy:
    """A loaded policy in its process. policy: its plugins, as the scheduler takes them."""

    def __init__(self, conversation: Conversation, plugins: Sequence[messages.Plugin], weight: int) -> None:
        self._conversation = conversation
        self._numbers, self._cycles = count(1), count(1)
        self._cache: Cache | None = None
        self._known: dict[str, list[Pod]] = {}  # by node, its pods as the process knows them
        self._uids: set[str] = set()
        self._told, self._weight = plugins, weight
        self.policy = self._policy(CALLS)

    def scoring(self) -> Policy:
        """The policy's scores alone. PolicyProblemError when it has a filter, too."""
        for each in self._told:
            if "filter" in each.methods:
                raise PolicyProblemError(f"{each.name} has filter: here, a policy only scores")
        return self._policy(SCORING)

    def _policy(self, calls: Sequence[str]) -> Policy:
        made = [_plugin(each, i, self, calls) for i, each in enumerate(self._told)]
        return Policy("", tuple(made), self._weight)

    @property
    def problem(self) -> str:
        """Why the process gives no more answers; "" if it does."""
        return self._conversation.problem

    def begin(self, cache: Cache) -> None:
        """The cluster as the process knows it from the start, and as it changes from now on."""
        self._cache = cache
        self._known = {name: [*node.pods] for name, node in cache.nodes.items()}
        self._uids = {pod_key(pod) for pods in self._known.values() for pod in pods}

    def ask(
        self,
        plugin: int,
        method: str,
        state: CycleState,
        pod: Pod,
        nodes: Iterable[NodeInfo] = (),
        scores: Mapping[str, int] | None = None,
    ) -> Answer:
        """Call a method of a plugin. PluginError when that fails."""
        cycle = state.setdefault(CYCLE, 0) or next(self._cycles)
        state[CYCLE] = cycle
        changed = self._changes()
        pods = [pod, *(each for node in changed.values() for each in node)]
        new = {key: each for each in pods if (key := pod_key(each)) not in self._uids}
        self._uids.update(new)
        call = Call(
            next(self._numbers),
            plugin,
            method,
            cycle,
            pod_key(pod),
            [each.name for each in nodes],
            dict(scores or {}),
            {name: [pod_key(each) for each in node] for name, node in changed.items()},
            [messages.raw(each) for each in new.values()],
        )
        try:
            answer = self._conversation.ask(call, call.number, f"{method} of {pod}")
        except PolicyProblemError as error:
            raise PluginError(str(error)) from None
        if answer.error:
            raise PluginError(answer.error[:MAX_REASON])
        return answer

    def prepare(self, plugin: int, pods: Iterable[Pod]) -> None:
        """Tell a plugin about the pods that are to come. PolicyProblemError when it fails."""
        call = Call(
            next(self._numbers), plugin, "prepare", 0, "", [], pods=[messages.raw(each) for each in pods]
        )
        answer = self._conversation.ask(call, call.number, "prepare")
        if answer.error:
            raise PolicyProblemError(answer.error[:MAX_REASON])

    def _changes(self) -> dict[str, list[Pod]]:
        """The nodes whose pods aren't as in the last call."""
        assert self._cache
        changed = {
            name: [*node.pods] for name, node in self._cache.nodes.items() if node.pods != self._known[name]
        }
        self._known |= changed
        return changed


class RemotePlugin:
    """A plugin that asks the policy's process. It has those of the methods below that the policy has."""

    def __init__(self, name: str, index: int, policy: RemotePolicy) -> None:
        self.name, self._index, self._policy = name, index, policy

    def _prepare(self, pods: Iterable[Pod]) -> None:
        self._policy.prepare(self._index, pods)

    def _pre_filter(self, state: CycleState, pod: Pod, _cache: Cache) -> set[str] | Status | None:
        answer = self._policy.ask(self._index, "pre_filter", state, pod)
        return set(answer.names) if answer.names is not None else self._status(answer.status)

    def _filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> list[Status | None]:
        statuses = self._policy.ask(self._index, "filter", state, pod, nodes).statuses or ()
        if len(statuses) != len(nodes):
            raise PluginError(f"plugin {self.name} filtered other nodes")
        return [self._status(each) for each in statuses]

    def _pre_score(
        self, state: CycleState, pod: Pod, _cache: Cache, nodes: Sequence[NodeInfo]
    ) -> Status | None:
        return self._status(self._policy.ask(self._index, "pre_score", state, pod, nodes).status)

    def _score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSlice) -> list[int]:
        found = self._policy.ask(self._index, "score", state, pod, nodes).scores or {}
        try:
            return [found[node.name] for node in nodes]
        except KeyError:
            raise PluginError(f"plugin {self.name} scored other nodes") from None

    def _normalize_score(self, state: CycleState, pod: Pod, scores: dict[str, int]) -> None:
        found = self._policy.ask(self._index, "normalize_score", state, pod, scores=scores).scores
        if found is None or found.keys() != scores.keys():
            raise PluginError(f"plugin {self.name} normalized the scores of other nodes")
        scores.update(found)

    def _status(self, told: Told | None) -> Status | None:
        if told is None:
            return None
        try:
            reasons = tuple(each[:MAX_REASON] for each in told.reasons[:MAX_REASONS])
            return Status(Code(told.code), reasons)
        except ValueError:
            raise PluginError(f"plugin {self.name} answered with a code that there is not") from None


def _plugin(told: messages.Plugin, index: int, policy: RemotePolicy, calls: Sequence[str]) -> RemotePlugin:
    """A plugin whose class has just the methods that the policy's has: these say at which points it runs.

    It is asked about many nodes in one call: to wait for an answer takes longer than to find it.
    """
    names = {"filter": "filter_nodes", "score": "score_nodes"}
    methods = [names.get(each, each) for each in calls if each in told.methods]
    own: dict[str, Callable[..., Any]] = {each: getattr(RemotePlugin, f"_{each}") for each in methods}
    kind: type[RemotePlugin] = type("RemotePlugin", (RemotePlugin,), own)
    return kind(told.name, index, policy)
