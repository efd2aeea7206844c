"""Runs the plugins of a profile at their extension points: in order, timed, with each answer checked.

It always knows which plugin is running, so an error names the plugin that caused it.

Counterpart in kube-scheduler: pkg/scheduler/framework/runtime/framework.go
"""

import inspect
import logging
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from pathlib import Path
from signal import SIGINT, default_int_handler, getsignal
from typing import Any, NamedTuple, TypeVar

from lib.kube.objects import Pod
from lib.kube.resource_claims import UndoClaim
from lib.scheduling.cache import Cache
from lib.scheduling.decision import Decision
from lib.scheduling.framework.interface import (
    AnnotatePlugin,
    BindPlugin,
    FromFilesPlugin,
    NormalizeScorePlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    Profile,
    ReservePlugin,
    UnreservePlugin,
    check_post_filter,
    implements,
)
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.node_slice import NodeSlice
from lib.scheduling.status import (
    DEFAULT_BIND,
    SKIP,
    BadAnswerError,
    Code,
    CycleState,
    Interruption,
    NodeError,
    PluginError,
    Rejection,
    Status,
    check_texts,
    checked,
    encodable,
    rejection_by,
    unschedulable,
)

log = logging.getLogger(__name__)

SUCCESS, ERROR = "Success", "Error"
"""The status of an extension point that ended with none of Code's values."""

SCHEDULING_CYCLE = ""
"""The name under which the time of a whole scheduling cycle is recorded."""

NOT_BOUND = unschedulable("every bind plugin left the pod to another")

P = TypeVar("P", bound=Plugin)

Clock = Callable[[], float]
"""The time in seconds. Scheduling has no clock of its own."""

Record = Callable[[str, str, float], None]
"""Called with an extension point's name, its status, and the seconds that it took."""

PreFilterAnswer = Set[str] | Status | None
"""What a PreFilter plugin returns."""

ForNodes = Callable[[CycleState, Pod, NodeSlice], Sequence[Any]]
"""Returns a plugin's answer for each of some nodes."""


def for_nodes(plugin: Plugin, method: str) -> ForNodes:
    """A plugin's `filter` or `score` for many nodes: its `filter_nodes`, say, or a call for each node."""
    if takes_many(type(plugin), method):
        bulk: ForNodes = getattr(plugin, f"{method}_nodes")
        return bulk
    one = getattr(plugin, method)
    return lambda state, pod, nodes: [one(state, pod, node) for node in nodes]


def takes_many(kind: type, method: str) -> bool:
    """Whether a class has `filter_nodes`, say, and not `filter`; of both, the more derived one counts."""
    defining = (base for base in kind.__mro__ if vars(base).keys() & {method, f"{method}_nodes"})
    return f"{method}_nodes" in vars(next(defining, object))


class Filter(NamedTuple):
    """A Filter plugin, its index among all of the profile (order), and how it is run for some nodes."""

    order: int
    plugin: Plugin
    run: ForNodes


class Scorer(NamedTuple):
    """A Score plugin, how it is run for some nodes, its weight, and itself if it normalizes its scores."""

    plugin: Plugin
    run: ForNodes
    weight: int
    normalizer: NormalizeScorePlugin | None


class Point:
    """An extension point. As a context manager it times one run and records it.

    status: SUCCESS, the value of a Code, or ERROR, which any exception sets. recorded: set it to False if
    this run is recorded elsewhere.
    """

    __slots__ = ("_clock", "_name", "_record", "began", "recorded", "status")

    def __init__(self, name: str, clock: Clock, record: Record) -> None:
        self._name, self._clock, self._record = name, clock, record

    def __enter__(self) -> "Point":
        self.status, self.recorded = SUCCESS, True
        self.began = self._clock()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is not None:
            self.status = ERROR
        if self.recorded:
            self._record(self._name, self.status, self._clock() - self.began)


class Framework:
    """Runs one profile's plugins.

    running: the plugin that runs, or ran last at this extension point; None between extension points.
    clock: returns the time in seconds. record: called after each extension point.
    evaluations: by extension point and plugin, how often a plugin was asked: at Filter and Score for a node,
    at PreFilter and PreScore for a pod, if its answer wasn't SKIP. Results that are kept aren't asked for.
    """

    def __init__(
        self,
        profile: Profile,
        clock: Clock = lambda: 0.0,
        record: Record = lambda _point, _status, _seconds: None,
    ) -> None:
        self.profile, self.clock, self.record = profile, clock, record
        self.running: Plugin | None = None
        self._points: dict[str, Point] = {}
        self.pre_filters = profile.with_point(PreFilterPlugin)
        self.filters = [
            Filter(i, plugin, for_nodes(plugin, "filter")) for i, plugin in enumerate(profile.filters())
        ]
        self._filter_order = {runner.plugin.name: runner.order for runner in self.filters}
        self._post_filters = profile.with_point(PostFilterPlugin)
        self.pre_scorers = [
            plugin for plugin in profile.with_point(PreScorePlugin) if plugin.name in profile.weights
        ]
        self.scorers = [
            Scorer(
                plugin,
                for_nodes(plugin, "score"),
                profile.weights[plugin.name],
                plugin if implements(plugin, NormalizeScorePlugin) else None,
            )
            for plugin in profile.scorers()
        ]
        self.annotators = profile.with_point(AnnotatePlugin)
        self._reserve = profile.with_point(ReservePlugin)
        self._unreserve = profile.with_point(UnreservePlugin)[::-1]
        self._permit = profile.with_point(PermitPlugin)
        self._pre_bind = profile.with_point(PreBindPlugin)
        self._bind = profile.with_point(BindPlugin)
        self._post_bind = profile.with_point(PostBindPlugin)
        points: Mapping[str, Iterable[Plugin]] = {
            "PreFilter": self.pre_filters,
            "Filter": [runner.plugin for runner in self.filters],
            "PreScore": self.pre_scorers,
            "Score": [scorer.plugin for scorer in self.scorers],
        }
        self.evaluations = {point: {plugin.name: 0 for plugin in found} for point, found in points.items()}

    def point(self, name: str) -> Point:
        """A block that is timed as an extension point, such as "Filter". Two of one name can't overlap."""
        self.running = None
        point = self._points.get(name)
        if point is None:
            point = self._points[name] = Point(name, self.clock, self.record)
        return point

    def each(self, plugins: Iterable[P]) -> Iterator[P]:
        """The plugins in order. The one yielded last counts as running."""
        for plugin in plugins:
            self.running = plugin
            yield plugin

    # --- which nodes fit, and how good they are ----------------------------------------------------------

    def run_pre_filter(
        self,
        plugins: Iterable[PreFilterPlugin],
        known: Mapping[str, PreFilterAnswer],
        state: CycleState,
        pod: Pod,
        cache: Cache,
    ) -> dict[str, PreFilterAnswer]:
        """Run PreFilter; the answers by plugin, up to the first rejection. known: answers that are kept.

        BadAnswerError when a plugin returns something else.
        """
        answers: dict[str, PreFilterAnswer] = {}
        for plugin in plugins:
            name = plugin.name
            if name in known:
                answer = known[name]
            else:
                self.running = plugin
                answer = plugin.pre_filter(state, pod, cache)
                if answer is not SKIP:
                    self.evaluations["PreFilter"][name] += 1
            answers[name] = answer
            if answer is None or answer is SKIP or isinstance(answer, Set):
                continue
            if checked(answer) != SKIP:
                break
        return answers

    def run_filters(
        self,
        filters: Iterable[Filter],
        known: Iterable[Rejection | None],
        state: CycleState,
        pod: Pod,
        nodes: NodeSlice,
    ) -> list[Rejection | None]:
        """For each node, the rejection by the first filter that rejects it. Runs one filter after the other.

        known: rejections by other filters; one is replaced only if a filter with a lower index rejects the
        node.
        """
        found = list(known)
        order, evaluations = self._filter_order, self.evaluations["Filter"]
        for own_order, plugin, run in filters:
            self.running = plugin
            asked: Sequence[int] = range(len(found))
            if any(found):
                asked = [i for i in asked if not (was := found[i]) or order[was.plugin] >= own_order]
            evaluations[plugin.name] += len(asked)
            statuses = run(state, pod, nodes.some(asked))
            none = isinstance(statuses, list) and not any(statuses)  # counting alone compares each status
            if none and statuses.count(None) == len(statuses) == len(asked):
                continue  # the usual case
            rejections: dict[int, Rejection] = {}  # one for each status object, which many nodes may share
            for i, status in zip(asked, statuses, strict=True):
                if status is not None:
                    rejection = rejections.get(id(status))
                    if rejection is None:
                        checked(status)
                        rejection = rejections[id(status)] = rejection_by(plugin.name, status)
                    found[i] = rejection
        return found

    def run_pre_score(
        self,
        plugins: Iterable[PreScorePlugin],
        state: CycleState,
        pod: Pod,
        cache: Cache,
        nodes: Sequence[NodeInfo],
    ) -> set[str]:
        """Run PreScore; the names of the plugins that skip. BadAnswerError when one rejects."""
        skipped = set()
        for plugin in plugins:
            self.running = plugin
            status = checked(plugin.pre_score(state, pod, cache, nodes))
            if status is None:
                self.evaluations["PreScore"][plugin.name] += 1
                continue
            if status is not SKIP and status != SKIP:
                raise BadAnswerError(f"pre_score may skip, but not reject: {', '.join(status.reasons)}")
            skipped.add(plugin.name)
        return skipped

    # --- extension points run once per cycle ------------------------------------------------------------

    def run_post_filter(
        self,
        state: CycleState,
        pod: Pod,
        cache: Cache,
        rejected: Mapping[str, Rejection],
        filter_node: Callable[[str], Rejection | None],
    ) -> tuple[PostFilterResult | None, str, tuple[UndoClaim, ...]]:
        """Run PostFilter. Returns the result of the first plugin that can make a node fit.

        If none can: the result of the last plugin that looks for a node, or None; and what all of them say,
        or only how filters failed. In any case, what is to be written of claims. filter_node: runs all
        filters for one node, with the cache as it is then.
        """
        said: list[str] = []
        none_found: PostFilterResult | None = None
        undo: tuple[UndoClaim, ...] = ()
        if not self._post_filters:
            return None, "", undo
        with self.point("PostFilter") as point:
            for plugin in self.each(self._post_filters):
                try:
                    answer = plugin.post_filter(state, pod, cache, rejected, filter_node)
                except NodeError as error:
                    point.status = ERROR
                    return None, str(error), undo
                if isinstance(answer, PostFilterResult):
                    check_post_filter(answer)
                    if answer.node_name:
                        return answer, "", undo
                    none_found = answer
                    said += answer.reasons
                    continue
                status = checked(answer)
                if status is None:
                    return None, "", undo
                said += status.reasons
                undo += status.undo
            point.status = Code.UNSCHEDULABLE.value
        return none_found, ", ".join(said), undo

    def run_annotate(self, state: CycleState, pod: Pod, node: NodeInfo) -> dict[str, str]:
        """The annotations that a pod gets with its binding to a node. BadAnswerError if one isn't text."""
        annotations: dict[str, str] = {}
        for plugin in self.each(self.annotators):
            annotations.update(plugin.annotate(state, pod, node))
            check_texts(chain(*annotations.items()), "an annotation")
        return annotations

    def run_reserve(self, decision: Decision) -> Rejection | None:
        """Run Reserve; returns the first rejection."""
        with self.point("Reserve") as point:
            for plugin in self.each(self._reserve):
                status = checked(plugin.reserve(decision.state, decision.pod, decision.node_name))
                if status:
                    return _rejection(point, plugin, status)
        return None

    def run_unreserve(self, decision: Decision) -> tuple[UndoClaim, ...]:
        """Undo Reserve, in reverse order. A plugin that fails is logged, and the others are run.

        Returns what is to be written for that.
        """
        undo: list[UndoClaim] = []
        with self.point("Unreserve"):
            for plugin in self.each(self._unreserve):
                try:
                    undo += plugin.unreserve(decision.state, decision.pod, decision.node_name) or ()
                except BaseException as error:
                    raise_if_interrupted(error)
                    _log_failure("plugin %s failed to unreserve %s", plugin, decision)
        return tuple(undo)

    def run_permit(self, decision: Decision, waited: float) -> Rejection | None:
        """Run Permit. Returns a rejection, or one with Code.WAIT; None if all plugins agree.

        waited: for how many seconds the pod has waited here. The time is recorded once per cycle.
        """
        wait: Rejection | None = None
        with self.point("Permit") as point:
            point.recorded = not waited
            for plugin in self.each(self._permit):
                status = checked(plugin.permit(decision.state, decision.pod, decision.node_name, waited))
                if status and status.code != Code.WAIT:
                    return _rejection(point, plugin, status)
                if status and waited >= status.limit:
                    late = unschedulable(f"not permitted by {plugin.name} within {status.limit:g} s")
                    return _rejection(point, plugin, late)
                if status:
                    wait = _rejection(point, plugin, status)
        return wait

    def run_pre_bind(self, decision: Decision, waited: float) -> tuple[Rejection | None, frozenset[str]]:
        """Run PreBind. Returns the first rejection, or one with Code.WAIT; and which plugins have succeeded.

        waited: for how many seconds the pod has waited since the first run. Plugins that have succeeded are
        not run again. PluginError when one isn't done within its time limit.
        """
        done = {*decision.pre_bound}
        with self.point("PreBind") as point:
            point.recorded = not waited
            for plugin in self.each(self._pre_bind):
                if plugin.name in done:
                    continue
                status = checked(plugin.pre_bind(decision.state, decision.pod, decision.node_name))
                if status and status.code == Code.WAIT and waited >= status.limit:
                    late = f"{', '.join(status.reasons)}: not within {status.limit:g} s"
                    raise PluginError(f'running PreBind plugin "{plugin.name}": {late}')
                if status:
                    return _rejection(point, plugin, status), frozenset(done)
                done.add(plugin.name)
        return None, frozenset(done)

    def waits_in_pre_bind(self, decision: Decision) -> str:
        """The name of the PreBind plugin that a pod waits for; "" if none is left."""
        return next((plugin.name for plugin in self._pre_bind if plugin.name not in decision.pre_bound), "")

    def run_bind(self, decision: Decision) -> bool | Rejection:
        """Run Bind; returns whether a plugin bound the pod. If not, poller POSTs the binding and times it."""
        for plugin in self._bind:
            with self.point("Bind") as point:
                self.running = plugin
                status = checked(plugin.bind(decision.state, decision.pod, decision.node_name))
                if status is None:
                    return True
                if status == DEFAULT_BIND:
                    point.recorded = False
                    return False
                if status != SKIP:
                    return _rejection(point, plugin, status)
                point.status = SKIP.code.value
        return Rejection(self.running.name if self.running else "", NOT_BOUND)

    def run_post_bind(self, decision: Decision) -> None:
        """Run PostBind. A plugin that fails is logged, and the others are run."""
        with self.point("PostBind"):
            for plugin in self.each(self._post_bind):
                try:
                    plugin.post_bind(decision.state, decision.pod, decision.node_name)
                except BaseException as error:
                    raise_if_interrupted(error)
                    _log_failure("plugin %s failed after %s was bound", plugin, decision)

    # --- errors -----------------------------------------------------------------------------------------

    def blame(self, error: BaseException) -> str:
        """One line: which plugin failed, where in its source, for which node, and why.

        The plugin's part of the traceback is logged at debug level.
        """
        if isinstance(error, PluginError):
            return _text_of(error) or type(error).__name__
        who = f"plugin {self.running.name}" if self.running else "poller itself"
        if isinstance(error, BadAnswerError):
            return f"{who} failed: {_text_of(error)}"
        from lib.scheduling.framework.position import position_in  # here, as few plugins fail

        sources = _sources_of(self.running) if self.running else ()
        position = position_in(sources, traceback.walk_tb(error.__traceback__))
        if not position:  # it failed before its own code ran, or isn't written in Python
            last = traceback.extract_tb(error.__traceback__)[-1]
            return f"{who} failed at {Path(last.filename).name}:{last.lineno}: {describe(error)}"
        log.debug("%s failed:\n%s", who, _frames_from(sources, error), extra={"pod": position.pod})
        node = f" for node {position.node}" if position.node else ""
        return f"{who} failed at {Path(position.file).name}:{position.line}{node}: {describe(error)}"


def _frames_from(sources: Collection[str], error: BaseException) -> str:
    """The traceback from the first frame of these files on, as Python prints it."""
    frames = list(traceback.extract_tb(error.__traceback__))
    while frames and frames[0].filename not in sources:
        frames.pop(0)
    return "".join(traceback.format_list(frames)).rstrip()


def raise_if_interrupted(error: BaseException) -> None:
    """Raise an exception again, unless it is a failure of the plugin that ran: that never ends poller.

    A plugin may fail with any exception, such as SystemExit or asyncio.CancelledError. KeyboardInterrupt is a
    failure, too, if SIGINT doesn't raise it: in the loop a signal raises an Interruption.
    """
    if isinstance(error, Interruption):
        raise error
    if isinstance(error, KeyboardInterrupt) and getsignal(SIGINT) is default_int_handler:
        raise error


def describe(error: BaseException) -> str:
    """An error's type and message, as text that UTF-8 can encode."""
    text = _text_of(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _text_of(error: BaseException) -> str:
    try:
        return encodable(str(error))
    except BaseException as another:  # a plugin's own exception may fail to describe itself
        raise_if_interrupted(another)
        return ""


def _rejection(point: Point, plugin: Plugin, status: Status) -> Rejection:
    point.status = status.code.value
    return Rejection(plugin.name, status)


def _log_failure(message: str, plugin: Plugin, decision: Decision) -> None:
    about = {"pod": str(decision.pod), "node": decision.node_name}
    log.exception(message, plugin.name, decision.pod, extra=about)


def _sources_of(plugin: Plugin) -> Collection[str]:
    """The files in which a plugin is written."""
    if implements(plugin, FromFilesPlugin):
        return plugin.function_files
    try:
        return [inspect.getfile(type(plugin))]
    except (TypeError, OSError):
        return ()
