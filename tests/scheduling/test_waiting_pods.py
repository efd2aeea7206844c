"""The queue finds pods by indexes and heaps: what it finds is what a walk over all pods would find."""

import gc
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from math import inf
from random import Random
from typing import Any

import pytest
from all_cases import some
from objects import node, pod, read
from scheduling.plugins.storage_objects import attachment, claim, csi_node, csi_volume, storage_class

from lib.kube.changes import AnyChange, Change, Kind
from lib.kube.devices import ResourceClaim
from lib.kube.objects import Pod, with_parts
from lib.scheduling.attempt import SchedulingAttempt
from lib.scheduling.cache import Cache
from lib.scheduling.decision import NO_NODES, Outcome
from lib.scheduling.framework.interface import QueueingHintPlugin
from lib.scheduling.hints import changes_anything, freed_room, placed_pod
from lib.scheduling.looked_up import BUDGETS_UNSEEN
from lib.scheduling.plugins.registry import default_profile
from lib.scheduling.pod_groups import GROUP, REJECTING, group_of
from lib.scheduling.pod_life import BackoffSettings, Phase, PodLife, PodLives
from lib.scheduling.pod_limits import TOO_COMPLEX
from lib.scheduling.queue import HELD_PAUSE, MAX_HELD, SchedulingQueue
from lib.scheduling.status import Status, unschedulable

TAINTED = [{"key": "gpu", "effect": "NoSchedule"}]
PORT = [{"name": "main", "ports": [{"hostPort": 80}]}]


def _terms(app: str) -> dict[str, Any]:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


SPREAD = [{"topologyKey": "zone", "maxSkew": 1, "labelSelector": {"matchLabels": {"app": "web"}}}]
SPECS: Sequence[tuple[dict[str, Any], str]] = (
    ({}, "TaintToleration"),
    ({"tolerations": [{"operator": "Exists"}]}, "NodeUnschedulable"),
    ({"requests": {"cpu": "8"}}, "NodeResourcesFit"),
    ({"requests": {"example.com/gpu": "1"}}, "NodeResourcesFit"),
    ({"nodeSelector": {"disk": "ssd"}}, "NodeAffinity"),
    ({"affinity": {"podAffinity": _terms("db")}}, "InterPodAffinity"),
    ({"affinity": {"podAntiAffinity": _terms("web")}}, "InterPodAffinity"),
    ({"requests": {"cpu": "1"}}, "InterPodAffinity"),
    ({"topologySpreadConstraints": SPREAD}, "PodTopologySpread"),
    ({"containers": PORT}, "NodePorts"),
    ({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}, "VolumeBinding"),
    ({"volumes": [{"name": "own", "ephemeral": {"volumeClaimTemplate": {}}}]}, "VolumeBinding"),
    ({"volumes": [{"name": "other", "ephemeral": {"volumeClaimTemplate": {}}}]}, "NodeVolumeLimits"),
    ({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}, "DynamicResources"),
    ({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}, "DynamicResources"),
    ({"volumes": [{"name": "disk", "gcePersistentDisk": {"pdName": "disk"}}]}, "VolumeRestrictions"),
)
"""Specs of pods, each with the plugin that rejects such a pod as a rule."""

LABELS: Sequence[dict[str, str]] = ({}, {"app": "db"}, {"app": "web"}, {GROUP: "a"}, {GROUP: "b"})

PROFILE = default_profile("my-scheduler")
HINTS = {plugin.name: plugin for plugin in PROFILE.with_point(QueueingHintPlugin)}
OTHER_NAMES = ("AnyOther", TOO_COMPLEX, BUDGETS_UNSEEN, REJECTING, NO_NODES)


def made(name: str, spec: dict[str, Any], labels: dict[str, str], **more: Any) -> Pod:
    found = pod(name, schedulerName="my-scheduler", **spec, **more)
    return with_parts(found, metadata={"labels": labels})


def device_claim(name: str, owner: str = "", *, given: bool = False) -> ResourceClaim:
    """A ResourceClaim; owner: the uid of the pod that it was made for. given: whether it has devices."""
    owners = [{"kind": "Pod", "name": "web", "uid": owner, "controller": True}] if owner else []
    metadata = {"namespace": "default", "name": name, "ownerReferences": owners}
    status = {"allocation": {}} if given else {}
    found: ResourceClaim = read(ResourceClaim, {"metadata": metadata, "status": status})
    return found


NAMES = "abcdefghijklmnop"
PRIORITIES = {name: i % 2 for i, name in enumerate(NAMES)}
NODES = [
    node("n1", labels, has, **spec)
    for labels, has, spec in product(
        ({}, {"zone": "a"}, {"zone": "b", "disk": "ssd"}),
        ({}, {"cpu": "16", "example.com/gpu": "2"}),
        ({}, {"taints": TAINTED}, {"unschedulable": True}),
    )
]
DEVICE_CLAIMS = [*product(("gpu", "other"), ("", "uid-of-a", "uid-of-b"), (False, True))]
STORAGE = (
    claim("data"),
    claim("data", "pv"),
    *(claim(f"{name}-{volume}") for name in NAMES[:3] for volume in ("own", "other")),
    *(device_claim(name, owner, given=given) for name, owner, given in DEVICE_CLAIMS),
    csi_volume("pv"),
    storage_class("fast"),
    csi_node("n1", example=1),
    csi_node("n1", example=5),
    attachment("pv", "n1"),
)


def change_of_others(chance: Random) -> AnyChange:
    """A change that isn't about a pod without a node."""

    def some_pod() -> Pod:
        return made("old", chance.choice(SPECS)[0], chance.choice(LABELS), nodeName="n1")

    draw: Callable[[], Any] = chance.choice(
        (lambda: chance.choice(NODES), some_pod, some_pod, lambda: chance.choice(STORAGE))
    )
    kind, now, before = chance.choice([*Kind]), draw(), draw()
    if kind == Kind.DELETED:
        return Change(kind, now, now)
    return Change(kind, now, before if kind == Kind.MODIFIED and type(before) is type(now) else None)


def helps(change: AnyChange, life: PodLife) -> bool:
    """Whether a change could help a pod, as each plugin says that rejected it."""
    waiting, left = life.pod, placed_pod(change)
    if left and left.metadata.uid == waiting.metadata.uid and waiting.status.nominated_node_name:
        return False
    if left and left.metadata.uid in life.victims and len(life.victims) > 1:
        return False
    for name in life.rejected_by:
        if name in (TOO_COMPLEX, BUDGETS_UNSEEN):
            continue
        if name == REJECTING:
            if left and group_of(left) == group_of(waiting):
                return True
        elif name not in HINTS or HINTS[name].queueing_hint(waiting, change):
            return True
    return False


TIMES = BackoffSettings(unschedulable=60)


class Walk:
    """A queue, and what a walk over all pods finds in it."""

    def __init__(self) -> None:
        self.queue = SchedulingQueue({"my-scheduler": PROFILE}, TIMES)
        self.lives, self.now = self.queue.lives, 0.0
        self.rejected_by: dict[str, str] = {}  # by a pod's name, the plugin that rejects it as a rule

    def in_phase(self, *phases: Phase) -> list[PodLife]:
        return self.lives.in_phase(*phases)

    def apply(self, change: AnyChange) -> None:
        """Apply a change of others: it moves the pods that it could help."""
        before = self.in_phase(Phase.UNSCHEDULABLE)
        wanted = {life.key for life in before if changes_anything(change) and helps(change, life)}
        self.queue.apply(change, self.now)
        left = {life.key for life in before if life.phase != Phase.UNSCHEDULABLE}
        awaited = {life.key for life in before if life.phase == Phase.ACTIVE}  # the last of its victims left
        assert wanted <= left <= wanted | awaited

    def ready(self, most: int) -> None:
        """Let the pods be tried that are due."""
        due = {life.key for life in self.in_phase(Phase.ACTIVE)}
        overdue = [
            life
            for life in self.in_phase(Phase.UNSCHEDULABLE)
            if self.now - life.timestamp >= self.pause(life)
        ]
        for life in self.in_phase(Phase.BACKOFF) + overdue:
            if self.now >= TIMES.ends_at(life):
                due.add(life.key)
        if not due:
            early = [life for life in self.in_phase(Phase.BACKOFF) + overdue if life.rejected_by]
            due = {life.key for life in early}
        groups = {life.group for life in self.lives.all() if life.key in due and life.group}
        later = self.in_phase(Phase.BACKOFF, Phase.UNSCHEDULABLE)
        due |= {life.key for life in later if life.group in groups}
        found = self.queue.ready(self.now)
        assert {each.metadata.uid for each in found} == due
        in_order = [self.place(each) for each in found]
        assert in_order == sorted(in_order)
        some = self.queue.ready(self.now, most)
        chosen = {each.metadata.uid for each in found[:most]}
        groups = {group for each in found[:most] if (group := group_of(each))}
        chosen |= {each.metadata.uid for each in found if group_of(each) in groups}
        assert [each for each in found if each.metadata.uid in chosen] == some

    def pause(self, life: PodLife) -> float:
        return 30.0 if BUDGETS_UNSEEN in life.rejected_by else TIMES.unschedulable

    def place(self, each: Pod) -> tuple[int, float]:
        return -each.spec.priority, self.lives.of(each).timestamp

    def check(self) -> None:
        """What is counted and indexed is what there is."""
        without = self.in_phase(Phase.GATED, Phase.ACTIVE, Phase.BACKOFF, Phase.UNSCHEDULABLE, Phase.DOUBTFUL)
        assert self.queue.unschedulable_by_plugin() == Counter(
            (name, "my-scheduler") for life in without for name in life.rejected_by if name != NO_NODES
        )
        for labels in LABELS:
            if group := group_of(made("x", {}, labels)):
                members = {life.key for life in self.lives.all() if group_of(life.pod) == group}
                assert {life.key for life in self.lives.of_group(group)} == members
        backing_off = self.in_phase(Phase.BACKOFF)
        ends = min((TIMES.ends_at(life) for life in backing_off), default=inf)
        early = any(life.rejected_by for life in backing_off) and not self.in_phase(Phase.ACTIVE)
        assert self.queue.next_in(self.now) == (0.0 if early else max(0.0, ends - self.now))


def run(walk: Walk, chance: Random, pods: dict[str, Pod]) -> None:
    """Let one thing happen."""
    walk.now += 0.001  # no two pods have the same place
    name, active = chance.choice(NAMES), walk.in_phase(Phase.ACTIVE)
    match chance.choices(("come", "reject", "others", "go", "free", "ready"), (8, 16, 16, 1, 1, 2))[0]:
        case "come":
            spec, walk.rejected_by[name] = chance.choice(SPECS)
            now = made(name, spec, chance.choice(LABELS), priority=PRIORITIES[name])
            change = Change(Kind.MODIFIED, now, pods[name]) if name in pods else Change(Kind.ADDED, now)
            pods[name] = now
            walk.queue.apply(change, walk.now)
        case "reject" if active:
            waiting = chance.choice(active)
            plugins = [chance.choice([*HINTS, *OTHER_NAMES]) for _ in range(chance.choice((0, 1, 2)))]
            if chance.random() < 0.7:
                plugins = [walk.rejected_by[waiting.pod.metadata.name]]
            walk.queue.requeue(waiting.key, plugins, "", walk.now)
            victims = [pod(each) for each in ("old", "older") if chance.random() < 0.2]
            walk.queue.await_victims(waiting.key, victims)
        case "others":
            walk.apply(change_of_others(chance))
        case "go" if name in pods:
            gone = pods.pop(name)
            walk.queue.apply(Change(Kind.DELETED, gone, gone), walk.now)
        case "free" if name in pods:
            walk.apply(freed_room(pods[name], "n1"))
        case "ready":
            walk.now += chance.choice((0.0, 0.5, 3.0, 31.0, 61.0))
            walk.ready(chance.choice((1, 2, 100)))
    walk.check()


@pytest.mark.parametrize("seed", range(some(40)))
def test_what_is_found_is_what_a_walk_over_all_pods_finds(seed: int) -> None:
    walk, chance, pods = Walk(), Random(seed), dict[str, Pod]()
    for _ in range(800):
        run(walk, chance, pods)


# --- what it costs ----------------------------------------------------------------------------------------


class Quota:
    """A gate that some pods wait at, and that nothing opens but a change of a node."""

    name, events_to_register = "Quota", ("NodeAdd",)

    def __init__(self) -> None:
        self.asked = 0

    def pre_enqueue(self, pod: Pod) -> Status | None:
        self.asked += 1
        return unschedulable("over quota") if "quota" in pod.metadata.labels else None

    def queueing_hint(self, pod: Pod, change: AnyChange) -> bool:
        return True


def calls_of(queue: SchedulingQueue, change: AnyChange, now: float) -> int:
    """How many functions are called for a change and the tick after it."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        queue.apply(change, now)
        queue.ready(now)
        queue.next_in(now)
        queue.counts()
        queue.unschedulable_by_plugin()
    finally:
        sys.setprofile(None)
    return calls


OLD = made("old", {}, {}, nodeName="n1")


CHANGES: dict[str, AnyChange] = {
    "a pod is placed": Change(Kind.ADDED, OLD),
    "a pod on a node goes": Change(Kind.DELETED, OLD, OLD),
    "a pod on a node is labelled": Change(Kind.MODIFIED, OLD, made("old", {}, {"a": "b"}, nodeName="n1")),
    "a node gets a label": Change(Kind.MODIFIED, node("n1", {"a": "b"}), node("n1")),
    "a new pod": Change(Kind.ADDED, made("new", {}, {})),
    "a heartbeat": Change(Kind.MODIFIED, node("n1"), node("n1")),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("waiting", ["gated", "gated by a quota", "unschedulable", "awaiting", "backing off"])
def test_a_tick_costs_the_same_whatever_waits(waiting: str, change: AnyChange) -> None:
    cost = []
    for number in (10, 1000):
        quota = Quota()
        queue = SchedulingQueue({"my-scheduler": default_profile("my-scheduler", quota)})
        for i in range(number):
            gates = [{"name": "wait"}] if waiting == "gated" else []
            labels = {"quota": "1"} if waiting == "gated by a quota" else {}
            spec = {"nodeSelector": {"disk": "ssd"}, "schedulingGates": gates}
            queue.apply(Change(Kind.ADDED, made(f"web-{i}", spec, labels)), 0)
        for each in queue.ready(0):
            plugins = () if waiting == "backing off" else ["NodeAffinity"]
            queue.requeue(each.metadata.uid, plugins, "", 0)
            if waiting == "awaiting":
                queue.await_victims(each.metadata.uid, [pod("victim")])
        queue.ready(0.1)  # notes when each is due
        asked = quota.asked
        cost.append(calls_of(queue, change, 0.2))
        assert quota.asked - asked == (change is CHANGES["a new pod"])
        assert len(queue) + queue.gated() == number + (change is CHANGES["a new pod"])
    assert cost[1] <= cost[0]  # what is found the first time is kept


def test_pods_that_a_plugin_cannot_tell_apart_are_asked_for_one_hint() -> None:
    hints: list[tuple[str, str, str]] = []
    profile = {"my-scheduler": PROFILE}
    queue = SchedulingQueue(
        profile, hinted=lambda plugin, event, said, _: hints.append((plugin, event, said))
    )
    for i in range(100):
        selector = {"nodeSelector": {"disk": "ssd" if i % 2 else "hdd"}}
        queue.apply(Change(Kind.ADDED, made(f"web-{i}", selector, {"index": str(i)})), 0)
    for each in queue.ready(0):
        queue.requeue(each.metadata.uid, ["NodeAffinity"], "", 0)
    queue.apply(Change(Kind.ADDED, node("n1", {"disk": "ssd"})), 5)
    assert sorted(hints) == [("NodeAffinity", "NodeAdd", "Queue"), ("NodeAffinity", "NodeAdd", "QueueSkip")]
    assert len(queue.ready(5)) == 50


def test_a_change_of_a_claim_asks_only_about_the_pods_that_have_it() -> None:
    hints: list[str] = []
    profile = {"my-scheduler": PROFILE}
    queue = SchedulingQueue(profile, hinted=lambda _plugin, _event, said, _: hints.append(said))
    for i in range(100):
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{i}"}}]
        queue.apply(Change(Kind.ADDED, made(f"web-{i}", {"volumes": volumes}, {})), 0)
    for each in queue.ready(0):
        queue.requeue(each.metadata.uid, ["VolumeBinding"], "", 0)
    queue.apply(Change(Kind.MODIFIED, claim("data-7", "pv"), claim("data-7")), 5)
    assert (hints, [each.metadata.name for each in queue.ready(5)]) == (["Queue"], ["web-7"])


def test_a_change_of_a_device_claim_asks_only_about_the_pods_that_have_it_unless_it_frees_devices() -> None:
    hints: list[str] = []
    profile = {"my-scheduler": PROFILE}
    queue = SchedulingQueue(profile, hinted=lambda _plugin, _event, said, _: hints.append(said))
    for i in range(10):
        named = [{"name": "gpu", "resourceClaimName": f"gpu-{i}"}]
        queue.apply(Change(Kind.ADDED, made(f"web-{i}", {"resourceClaims": named}, {})), 0)
    for each in queue.ready(0):
        queue.requeue(each.metadata.uid, ["DynamicResources"], "", 0)
    queue.apply(Change(Kind.ADDED, device_claim("gpu-3")), 5)
    queue.apply(Change(Kind.ADDED, device_claim("own", owner="uid-of-web-4")), 5)
    assert (hints, [each.metadata.name for each in queue.ready(5)]) == (["Queue"] * 2, ["web-3", "web-4"])
    queue.apply(Change(Kind.DELETED, device_claim("gpu-3", given=True), device_claim("gpu-3", given=True)), 6)
    assert len(queue.ready(6)) == 10


def test_a_gate_that_names_its_events_is_asked_after_them_alone_and_once_a_tick() -> None:
    quota = Quota()
    queue = SchedulingQueue({"my-scheduler": default_profile("my-scheduler", quota)})
    for i in range(10):
        queue.apply(Change(Kind.ADDED, made(f"web-{i}", {}, {"quota": "1"})), 0)
    assert quota.asked == 10
    queue.apply(CHANGES["a pod is placed"], 1)
    queue.ready(1)
    assert quota.asked == 10
    for name in ("n1", "n2", "n3"):
        queue.apply(Change(Kind.ADDED, node(name)), 2)
    queue.ready(2)
    assert quota.asked == 20


def test_more_pods_than_are_tried_in_a_tick_keep_their_order() -> None:
    queue = SchedulingQueue({"my-scheduler": PROFILE})
    for i in range(10):
        queue.apply(Change(Kind.ADDED, made(f"web-{i}", {}, {}, priority=i % 3)), i)
    tried = []
    while some := queue.ready(10, most=3):
        tried += [each.metadata.name for each in some]
        for each in some:
            queue.drop(each.metadata.uid)
    assert tried == [f"web-{i}" for i in (2, 5, 8, 1, 4, 7, 0, 3, 6, 9)]


def test_no_record_is_kept_of_waiting_pods_that_have_gone() -> None:
    queue = SchedulingQueue({"my-scheduler": PROFILE}, BackoffSettings(unschedulable=inf))
    pods = [made(f"web-{i}", spec, labels) for i, (spec, _) in enumerate(SPECS) for labels in LABELS]
    for each in pods:
        queue.apply(Change(Kind.ADDED, each), 0)
    for each in queue.ready(0):
        queue.requeue(each.metadata.uid, {plugin for _, plugin in SPECS}, "", 0)
        queue.await_victims(each.metadata.uid, [pod("victim")])
    queue.ready(1)
    for each in pods:
        queue.apply(Change(Kind.DELETED, each, each), 2)
    queue.ready(2)
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, PodLife) and each.pod in pods]


# --- held pods --------------------------------------------------------------------------------------------


def holding(*pods: Pod, on: str = "n1") -> tuple[SchedulingQueue, list[float]]:
    """A queue whose pods are held since second 0, and its clock."""
    clock = [0.0]
    cache = Cache([node(on)], lives=PodLives(lambda: clock[0]))
    queue = SchedulingQueue({"my-scheduler": PROFILE}, lives=cache.lives)
    for each in pods:
        queue.apply(Change(Kind.ADDED, each), 0)
        cache.assume(each, on)
        cache.lives.of(each).decision = SchedulingAttempt(each, cache).decide(
            Outcome.WAITING, "", node_name=on
        )
        cache.lives.hold(each.metadata.uid, "waits")
    return queue, clock


def times_asked(queue: SchedulingQueue, until: float) -> dict[str, list[float]]:
    """When each held pod is asked about, if the loop ticks ten times a second."""
    found: dict[str, list[float]] = {}
    for tick in range(int(until * 10)):
        for each in queue.held(tick / 10):
            found.setdefault(each.metadata.name, []).append(tick / 10)
    return found


def test_a_held_pod_is_asked_about_at_once_and_then_more_and_more_seldom() -> None:
    queue, _ = holding(made("web", {}, {}))
    assert queue.next_in(0) == 0
    (times,) = times_asked(queue, until=1000).values()
    pauses = [after - before for before, after in pairwise(times)]
    assert times[:3] == [0.0, 0.1, 0.2]
    assert all(pause <= max(0.2, before / 8 + 0.2) for before, pause in zip(times, pauses, strict=False))
    assert max(pauses) <= 30.2
    assert queue.next_in(999) <= 30


def test_many_held_pods_are_asked_about_by_and_by() -> None:
    queue, _ = holding(*(made(f"web-{i}", {}, {}) for i in range(1000)))
    assert [len(queue.held(now)) for now in (0, 0.01, 0.1, 0.2)] == [MAX_HELD, 0, MAX_HELD, MAX_HELD]
    assert queue.next_in(0.2) == pytest.approx(HELD_PAUSE)
    asked = times_asked(queue, until=200)
    assert len(asked) == 1000
    assert max(after - before for times in asked.values() for before, after in pairwise(times)) <= 31


def test_the_held_pods_of_a_group_are_asked_about_together() -> None:
    queue, _ = holding(*(made(f"web-{i}", {}, {GROUP: "a"} if i % 60 == 0 else {}) for i in range(121)))
    first = [each.metadata.name for each in queue.held(0)]
    assert {"web-0", "web-60", "web-120"} <= {*first}
    assert len(first) == len({*first}) == MAX_HELD + 2


def test_a_held_pod_that_loses_its_node_or_is_preempted_is_asked_about_at_once() -> None:
    web = made("web", {}, {})
    for lose in (
        lambda queue: queue.lives.preempt([web]),
        lambda queue: queue.apply(Change(Kind.DELETED, node("n1"), node("n1")), 60),
    ):
        queue, _ = holding(web)
        times_asked(queue, until=60)
        assert queue.held(60) == []
        lose(queue)
        assert queue.held(60) == [web]
