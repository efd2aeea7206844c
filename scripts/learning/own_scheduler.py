"""The checks of lessons 20 to 23: a student's own scheduler is tried, and judged by what it does."""

import time
from collections.abc import Sequence

from lib.kube.quantity import Quantity
from scripts.learning.lab import Json, Lab, node_of
from scripts.learning.recorder import Seen
from scripts.learning.trial import NAME, Trial, new_name, trial

SETTLE = 0.8  # seconds; until the scheduler's watches have shown what has changed

SOON = 20.0  # seconds; a loop that polls each second, on a slow machine, has done it by then


def _nodes(tried: Trial, count: int) -> list[str]:
    """So many nodes with names that nobody knows before."""
    return [tried.add_node(new_name(each)) for each in ("amber", "birch", "cedar", "dune")[:count]]


def _bound(tried: Trial, names: Sequence[str], seconds: float = 0, but: str = "") -> dict[str, str]:
    """The nodes of pods, as soon as all have one. but: what the student is told in addition."""

    seconds = seconds or SOON

    def waiting() -> list[str]:
        pods = tried.pods()
        return [name for name in names if name not in pods or not node_of(pods[name])]

    tried.until(
        lambda: not waiting(),
        seconds,
        lambda: f"{seconds:g} s later, without a node: {', '.join(waiting())}{but}",
    )
    pods = tried.pods()
    return {name: node_of(pods[name]) for name in names}


def _told(tried: Trial, name: str) -> None:
    """The pod has one event that says where it is."""
    events = tried.until(
        lambda: tried.events(name, "Scheduled"), SOON / 4, f"pod {name} is bound, but has no event Scheduled"
    )
    pod = tried.pods()[name]
    tried.require(len(events) == 1, f"pod {name} has {len(events)} events Scheduled, not one")
    event = events[0]
    where = node_of(pod)
    tried.require(
        where in event.get("message", ""),
        f"the event of pod {name} doesn't name its node {where}, but says: {event.get('message')}",
    )
    for field, value in (("uid", pod["metadata"]["uid"]), ("namespace", pod["metadata"]["namespace"])):
        tried.require(
            event["involvedObject"].get(field) == value,
            f"involvedObject.{field} in the event of pod {name} isn't that of the pod",
        )
    by = event.get("reportingComponent") or (event.get("source") or {}).get("component")
    tried.require(by == NAME, f"the event of pod {name} is from {by or 'nobody'}: source.component is {NAME}")


def _requests(pod: Json) -> dict[str, int]:
    """What a pod requests of cpu and memory."""
    asked = [each.get("resources", {}).get("requests") or {} for each in pod["spec"]["containers"]]
    return {name: sum(Quantity.parse(each.get(name, "0")) for each in asked) for name in ("cpu", "memory")}


def _require_room(tried: Trial, but: str = "") -> None:
    """No node has more pods than room. but: what the student is told in addition."""
    for node, has in tried.allocatable().items():
        there = {
            name: pod for name, pod in tried.pods().items() if node_of(pod) == node and not _is_over(pod)
        }
        for resource, most in has.items():
            used = sum(_requests(pod)[resource] for pod in there.values())
            tried.require(
                used <= Quantity.parse(most),
                f"node {node} has {most} of {resource}, and the requests of its pods are more:"
                f" {', '.join(sorted(there))}{but}",
            )


def _is_over(pod: Json) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


# --- 20: sixty lines --------------------------------------------------------------------------------------


def own_scheduler_binds_at_random(lab: Lab) -> str:
    """Pods are bound to several nodes, those of other schedulers aren't, and each has an event."""
    with trial(lab.folder) as tried:
        nodes = _nodes(tried, 3)
        first = [tried.add_pod(new_name("web")), tried.add_pod(new_name("api"), namespace=tried.namespace)]
        theirs = tried.add_pod(new_name("theirs"), scheduler="other-scheduler")
        tried.start()
        _bound(tried, first)
        tried.passed("pods that were there before are bound, also one of the namespace " + tried.namespace)
        later = [tried.add_pod(new_name("late")) for _ in range(8)]
        where = set(_bound(tried, later).values())
        tried.require(where <= set(nodes), f"there is no node {', '.join(where - set(nodes))}")
        tried.require(len(where) > 1, f"all ten pods are on {where.pop()}: choose at random")
        tried.passed("pods that come later are bound, to several nodes")
        tried.require(
            not tried.node_of(theirs), f"pod {theirs} is bound, but it names the scheduler other-scheduler"
        )
        for name in (*first, *later):
            _told(tried, name)
        tried.passed("each has an event, and the pod of another scheduler is left alone")
    return "ten pods were bound and told, and nobody else's."


def own_scheduler_knows_room(lab: Lab) -> str:
    """Pods go where cpu and memory are free, and stay without a node where there is no room."""
    with trial(lab.folder) as tried:
        amber = tried.add_node(new_name("amber"), "2", "4Gi")
        birch = tried.add_node(new_name("birch"), "4", "2097152Ki")
        cedar = tried.add_node(new_name("cedar"), "1", "8Gi")
        tried.occupy(amber, cpu="1500m")
        parts = [{"cpu": "0.5"}, {"cpu": "1", "memory": "512Mi"}]
        containers = [
            {"name": f"part-{n}", "image": "nginx", "resources": {"requests": requests}}
            for n, requests in enumerate(parts)
        ]
        tried.occupy(birch, containers=containers)
        tried.occupy(cedar, cpu="550m")
        tried.finish(tried.occupy(cedar, cpu="400m"))
        huge = tried.add_pod(new_name("huge"), cpu="64")
        expected = {
            tried.add_pod(new_name("exact"), cpu="0.5", memory="3G"): (
                amber, "it wants 0.5 cpu and 3G of memory, and 0.5 cpu and 4Gi are free there"
            ),
            tried.add_pod(new_name("wide"), cpu="2", memory="500M"): (
                birch, "it wants 2 cpu, and 2.5 are free there; add up all containers of a pod"
            ),
            tried.add_pod(new_name("tall"), cpu="400m", memory="6Gi"): (
                cedar, "it wants 6Gi of memory; a pod that has finished takes no room"
            ),
        }  # fmt: skip
        tried.start()
        found = _bound(tried, list(expected))
        for name, node in found.items():
            right, why = expected[name]
            tried.require(node == right, f"pod {name} is on {node}, and has room on {right} only: {why}")
        tried.passed("cpu and memory are counted, in all units, of all namespaces and all containers")
        tried.require(not tried.node_of(huge), f"pod {huge} wants 64 cpu, and is bound nevertheless")
        spare = tried.add_node(new_name("dune"), "3", "8Gi")
        twins = [tried.add_pod(new_name("twin"), cpu="2") for _ in range(2)]
        tried.until(
            lambda: any(map(tried.node_of, twins)), SOON, f"no twin is on {spare}, where there is room"
        )
        tried.watch_for(2.5, lambda: "" if not all(map(tried.node_of, twins)) else _both(twins, spare))
        _require_room(tried)
        tried.passed("of two pods that come together, one gets the room, and the other one waits")
    return "each pod is where there is room for it, and the others wait."


def _both(twins: list[str], node: str) -> str:
    return (
        f"{' and '.join(twins)} are both bound, but {node} has room for one of them. In a round, count those"
        " that you have bound in it"
    )


def own_scheduler_looks_up_what_is_lost(lab: Lab) -> str:
    """409, 404 and lost answers end nothing; a pod whose binding's answer was lost gets its event."""
    with trial(lab.folder) as tried:
        nodes = _nodes(tried, 2)
        lost, unsent, quick, gone, last = (
            new_name(each) for each in ("lost", "unsent", "quick", "gone", "last")
        )
        proxy = tried.proxy
        proxy.faults = {
            lost: proxy.lose_answer,
            unsent: proxy.lose_request,
            quick: proxy.bind_first("elsewhere"),
            gone: proxy.delete_first,
        }
        gated = tried.add_pod(new_name("gated"), schedulingGates=[{"name": "lab/gate"}])
        tried.start()
        for name, what in (
            (quick, "a 409, as another scheduler was faster"),
            (gone, "a 404, as the pod was deleted"),
            (unsent, "a request that got lost"),
            (lost, "an answer that got lost"),
            (last, "all of that, and a pod with a gate"),
        ):
            tried.add_pod(name)
            if name == gone:
                tried.until(lambda: gone not in tried.pods(), SOON, f"pod {gone} was never to be bound")
            else:
                node = _bound(tried, [name])[name]
                tried.require(
                    name == quick or node in nodes, f"pod {name} is on {node}: there is no such node"
                )
            if name in (unsent, lost, last):
                _told(tried, name)
            tried.require_it_runs()
            tried.passed(f"it goes on after {what}")
        tried.require(not tried.node_of(gated), f"pod {gated} has a gate")
        wrong = tried.events(quick, "Scheduled")
        tried.require(
            not wrong,
            f"the event of pod {quick} says {wrong and wrong[0]['message']}; but another scheduler has bound"
            " it, to the node elsewhere: look at what the API server answers",
        )
    return "nothing was bound twice, and each event is true."


# --- 21: a cache and a queue ------------------------------------------------------------------------------

QUIET = 3.0  # seconds in which nothing happens


def own_scheduler_watches(lab: Lab) -> str:
    """Nothing is asked while nothing happens; a watch that ends, or is too old, is begun anew."""
    with trial(lab.folder) as tried:
        _nodes(tried, 2)
        tried.start()
        _bound(tried, [tried.add_pod(new_name("first"))])
        tried.until(
            lambda: any("/pods?" in each.path and "watch=" in each.path for each in tried.proxy.seen),
            SOON / 4,
            "no watch of pods was seen, such as GET /api/v1/pods?watch=1&resourceVersion=7",
        )
        tried.pause(1)
        before = len(tried.proxy.seen)
        tried.pause(QUIET)
        asked = [each.path for each in tried.proxy.seen[before:]]
        tried.require(
            len(asked) <= 2, f"in {QUIET:g} s in which nothing happened, it has asked {len(asked)} times"
        )
        tried.passed("it watches pods, and asks nothing while nothing happens")
        _bound(tried, [tried.add_pod(new_name("second"))], 5)
        tried.passed("a new pod is bound at once")
        tried.proxy.cut()
        _bound(tried, [tried.add_pod(new_name("cut"))])
        tried.passed("watches that have ended are begun anew")
        tried.proxy.refusing = True
        tried.proxy.cut()
        tried.until(lambda: tried.proxy.begun_anew, SOON, "after watches had ended, none was begun anew")
        tried.proxy.refusing = False
        late = tried.add_node(new_name("late"), "16")
        where = _bound(tried, [name := tried.add_pod(new_name("new"), cpu="8")])[name]
        tried.require(where == late, f"pod {name} is on {where}, where there is no room")
        tried.passed("when a version is too old (410), pods and nodes are listed anew")
    return "it watches, and misses nothing."


def own_scheduler_assumes(lab: Lab) -> str:
    """What is decided counts before a watch shows it, while an answer is lost, and not after a failure."""
    with trial(lab.folder) as tried:
        proxy = tried.proxy
        for each in ("amber", "birch"):
            tried.add_node(new_name(each), "2")
        first, *others = (new_name("half") for _ in range(3))
        proxy.faults[first] = proxy.meanwhile(lambda: [tried.add_pod(name, cpu="1500m") for name in others])
        proxy.holding = True
        tried.start()
        tried.add_pod(first, cpu="1500m")
        late = "; its watch is late, so it must count what it has decided itself"
        tried.until(lambda: tried.node_of(first), SOON, f"pod {first} has no node")
        tried.until(
            lambda: any(map(tried.node_of, others)),
            SOON,
            "of three pods, one is bound; there is room for two",
        )
        tried.pause(1.5)
        _require_room(tried, late)
        tried.passed("a decision counts before a watch shows it")
        for name in others:
            tried.delete_pod(name)
        proxy.holding = False
        tried.pause(0.5)

        lost, rival = new_name("lost"), new_name("rival")
        proxy.faults[lost] = proxy.meanwhile(lambda: tried.add_pod(rival, cpu="5"), proxy.lose_answer)
        cedar = tried.add_node(new_name("cedar"), "8")
        proxy.holding = True
        tried.add_pod(lost, cpu="5")
        tried.until(lambda: tried.node_of(lost), SOON, f"pod {lost} has no node, and {cedar} has room for it")
        tried.pause(1.5)
        _require_room(tried, "; an answer was lost, and the room is taken until the pod was looked up")
        _told(tried, lost)
        tried.delete_pod(rival)
        proxy.holding = False
        tried.pause(0.5)
        tried.passed("while an answer is lost, nobody else gets the room")

        refused = new_name("refused")
        proxy.faults[refused] = proxy.fail
        tried.add_node(new_name("dune"), "16")
        tried.add_pod(refused, cpu="12")
        tried.until(
            lambda: tried.node_of(refused),
            SOON,
            f"pod {refused} has no node. Its binding was answered by 500: forget that it was assumed, and try"
            " again",
        )
        tried.passed("after a failed binding, its room is free again, and the pod is tried again")
    return "it knows what it has decided, and forgets what has failed."


def own_scheduler_backs_off_and_wakes(lab: Lab) -> str:
    """A pod that fits nowhere is tried again when something changes, and more and more seldom."""
    with trial(lab.folder) as tried:
        amber = tried.add_node(new_name("amber"), "2500m")
        tried.occupy(amber, cpu="2")
        big, small = tried.add_pod(new_name("big"), cpu="3"), new_name("small")
        tried.start()
        _failed(tried, big)
        tried.passed("the owner of a pod that fits nowhere is told")
        before = _attempts(tried, big)
        tried.pause(QUIET)
        more = _attempts(tried, big) - before
        tried.require(
            more <= 1, f"pod {big} was tried {more} times in {QUIET:g} s, and nothing has happened in them"
        )
        tried.passed("it isn't tried again while nothing happens")
        before = _attempts(tried, big)
        tried.add_pod(small, cpu="100m")
        for number in range(15):
            tried.patch(f"nodes/{amber}", {"metadata": {"annotations": {"lab/noise": str(number)}}})
            tried.pause(0.2)
        more = _attempts(tried, big) - before
        tried.require(
            more <= 4,
            f"pod {big} was tried {more} times in 3 s, in which its node changed 15 times: wait 1 s after the"
            " first attempt, then 2 s, 4 s, and so on",
        )
        _bound(tried, [small], 2)
        tried.passed("many changes lead to few attempts, and others needn't wait for it")
        birch = tried.add_node(new_name("birch"))
        _bound(tried, [big], LONGEST_BACKOFF)
        tried.passed("a new node wakes it")
        second = tried.add_pod(new_name("second"), cpu="3")
        _failed(tried, second)
        tried.delete_pod(big)
        tried.require(
            _bound(tried, [second], LONGEST_BACKOFF)[second] == birch, f"pod {second} isn't on {birch}"
        )
        tried.passed("a pod that goes wakes it")
    return "a pod that fits nowhere waits for a change, and wakes in time."


LONGEST_BACKOFF = 13.0  # seconds; kube-scheduler's is 10


def _failed(tried: Trial, name: str) -> None:
    tried.until(
        lambda: tried.events(name, "FailedScheduling"),
        SOON,
        f"pod {name} fits nowhere, and has no event FailedScheduling",
    )


def _attempts(tried: Trial, name: str) -> int:
    """How often a pod was tried in vain, as far as its events say."""
    return sum(
        each.method != "GET" and "/events" in each.path and _is_about(each, name) for each in tried.proxy.seen
    )


def _is_about(seen: Seen, name: str) -> bool:
    about = seen.body.get("involvedObject") or seen.body.get("regarding") or {}
    return about.get("name") == name or f"/events/{name}" in seen.path


# --- 22: plugins ------------------------------------------------------------------------------------------

WEIGHTS = {"NodeNumber": 1, "FewestPods": 2}

SCORED = (
    # the pods on the nodes 1, 2, 3 and the cordoned node 4; the digit of the pod; the digit of the best node
    ((3, 0, 1, 12), "1", "2"),
    ((1, 0, 4, 0), "1", "1"),
    ((4, 3, 0, 0), "2", "3"),
    ((2, 1, 0, 0), "4", "3"),
    ((0, 2, 2, 0), "x", "1"),
)
"""In each of these, another mistake leads to another node: weights, sums that aren't normalized, cordons."""


def own_scheduler_scores(lab: Lab) -> str:
    """The node with the highest sum of weighted, normalized scores is taken; none that is cordoned."""
    with trial(lab.folder) as tried:
        nodes = [tried.add_node(new_name("node", digit), cordoned=digit == "4") for digit in "1234"]
        tried.start()
        for counts, digit, best in SCORED:
            there = [
                tried.occupy(node) for node, count in zip(nodes, counts, strict=True) for _ in range(count)
            ]
            tried.pause(SETTLE)
            pod = tried.add_pod(new_name("pod", digit))
            node = _bound(tried, [pod])[pod]
            table = _totals(counts[:3], digit)
            tried.require(node != nodes[3], f"pod {pod} is on {node}, which is cordoned")
            tried.require(
                node.endswith(best),
                f"pod {pod} is on {node}, not on the node {best}. The nodes 1, 2, 3 have {table}",
            )
            tried.passed(f"{' '.join(map(str, counts))} pods on the nodes 1 to 4: {pod} is on {node}")
            for name in (pod, *there):
                tried.delete_pod(name)
    return "each pod is on the node with the highest total."


def _totals(counts: Sequence[int], digit: str) -> str:
    same = [100 if number == digit else 0 for number in "123"]
    fewest = [100 - 100 * count // max(counts) for count in counts]
    totals = [
        WEIGHTS["NodeNumber"] * a + WEIGHTS["FewestPods"] * b for a, b in zip(same, fewest, strict=True)
    ]
    parts = (("pods", counts), ("NodeNumber", same), ("FewestPods", fewest), ("total", totals))
    return "; ".join(f"{name} {' '.join(map(str, numbers))}" for name, numbers in parts)


PATIENT = 10.0
"""Seconds after which Permit rejects a pod that nobody has approved, as mini-kube-scheduler's timeout."""

LATE = 3.0  # seconds, on a slow machine

GO_ON = "; while a pod waits for Permit, go on with others"


def own_scheduler_permits(lab: Lab) -> str:
    """A pod waits for its node's digit in seconds, and for approval; who is rejected leaves its room."""
    with trial(lab.folder) as tried:
        asks: Json = {"labels": {"lab-approval": "ask"}}
        one = tried.add_node(new_name("node", "1"))
        tried.start()
        silent = tried.add_pod(new_name("silent"), cpu="3", metadata=asks)
        begun = time.monotonic()
        tried.pause(SETTLE)
        tried.cordon(one)
        four = tried.add_node(new_name("node", "4"))
        tried.pause(SETTLE)
        fourth = tried.add_pod(new_name("fourth"))
        created = {fourth: (time.monotonic(), 4)}
        tried.pause(SETTLE)
        tried.cordon(four)
        tried.cordon(one, cordoned=False)
        tried.pause(SETTLE / 2)
        first = tried.add_pod(new_name("first"))
        created[first] = time.monotonic(), 1
        rival = tried.add_pod(new_name("rival"), cpu="3")
        where = _bound(tried, [first, fourth], but=GO_ON)
        for name, (since, seconds) in created.items():
            took = tried.bindings_of(name)[0].at - since
            tried.require(
                took > seconds - 0.3, f"pod {name} waited for {took:.1f} s, and its node is {where[name]}"
            )
            tried.require(
                took < seconds + LATE,
                f"pod {name} waited for {took:.1f} s, and its node is {where[name]}{GO_ON}",
            )
        tried.require(
            tried.bindings_of(first)[0].at < tried.bindings_of(fourth)[0].at,
            f"pod {first} had to wait for {fourth}{GO_ON}",
        )
        tried.passed("pods wait for as many seconds as the digits of their nodes say, side by side")
        tried.require(
            not tried.node_of(rival),
            f"pod {rival} is bound to {one}, whose room pod {silent} has while it waits: 3 of 4 cpu",
        )
        tried.delete_pod(rival)
        tried.passed("the room of a pod that waits is taken")
        tried.cordon(one)
        two = tried.add_node(new_name("node", "2"))
        tried.pause(SETTLE)
        yes, no = (tried.add_pod(new_name(name), cpu="1500m", metadata=asks) for name in ("yes", "no"))
        tried.pause(2.5)
        for name in (yes, no, silent):
            tried.require(not tried.node_of(name), f"pod {name} is bound, and nobody has approved it")
        for name, answer in ((yes, "yes"), (no, "no")):
            path = f"namespaces/default/pods/{name}"
            tried.patch(path, {"metadata": {"annotations": {"lab-approved": answer}}})
        _bound(tried, [yes], LATE)
        _failed(tried, no)
        heir = tried.add_pod(new_name("heir"), cpu="2500m")
        tried.until(
            lambda: tried.node_of(heir) == two,
            SOON,
            f"pod {heir} has no node, although pod {no} was rejected on {two}: is its room free again?",
        )
        tried.passed("yes binds a pod, no rejects it, and its room is free again")
        tried.until(
            lambda: tried.events(silent, "FailedScheduling"),
            PATIENT + LATE,
            f"pod {silent} waits, and has no event FailedScheduling after {PATIENT:g} s",
        )
        took = time.monotonic() - begun
        tried.require(took > PATIENT - 0.5, f"pod {silent} was rejected after {took:.1f} s, not {PATIENT:g}")
        tried.require(not tried.node_of(silent), f"pod {silent} is bound, and nobody has approved it")
        tried.passed("a pod that gets no answer is rejected after 10 s")
    return "Permit lets pods wait, allows them, and rejects them."


# --- 23: preemption ---------------------------------------------------------------------------------------


def own_scheduler_preempts(lab: Lab) -> str:
    """The fewest pods of the lowest priority are evicted, and only if that helps; the room is kept."""
    with trial(lab.folder) as tried:
        for value in (1, 2, 5, 10, 50, 100):
            tried.add_priority(value)
        nodes = [tried.add_node(new_name(each)) for each in ("amber", "birch", "cedar")]
        low, lowest, high = (
            tried.occupy(node, cpu="3", priorityClassName=f"p{value}")
            for node, value in zip(nodes, (10, 5, 100), strict=True)
        )
        hopeless = tried.add_pod(new_name("hopeless"), cpu="64", priorityClassName="p100")
        never = new_name("never")
        tried.start()
        _failed(tried, hopeless)
        tried.add_pod(never, cpu="3", priorityClassName="p50", preemptionPolicy="Never")
        equal = tried.add_pod(new_name("equal"), cpu="3", priorityClassName="p5")
        for name in (never, equal):
            _failed(tried, name)
        _nobody_left(tried, [low, lowest, high])
        tried.passed(
            "nobody is evicted if that doesn't help, for an equal priority, or if a pod never preempts"
        )
        for name in (hopeless, never, equal):
            tried.delete_pod(name)
        tried.hold(lowest)
        urgent = tried.add_pod(new_name("urgent"), cpu="3", priorityClassName="p50")
        tried.until(
            lambda: tried.leaving(), SOON, f"pod {urgent} has the priority 50, and nobody is evicted for it"
        )
        tried.pause(1.5)
        gone = [name for name in (low, lowest, high) if name not in tried.pods() or name in tried.leaving()]
        tried.require(
            gone == [lowest],
            f"{' and '.join(gone)} was evicted. The priorities: {low} 10, {lowest} 5, {high} 100: one pod of"
            " the lowest is enough",
        )
        tried.passed(
            "the pod of the lowest priority is evicted, and no other, although it takes long to leave"
        )
        nominated = tried.pods()[urgent].get("status", {}).get("nominatedNodeName")
        tried.require(
            nominated == nodes[1], f"pod {urgent} has the nominatedNodeName {nominated}, not {nodes[1]}"
        )
        before = _attempts(tried, urgent)
        for number in range(15):  # its backoff is long then: the thief, which is new, is tried first
            tried.patch(f"nodes/{nodes[0]}", {"metadata": {"annotations": {"lab/noise": str(number)}}})
            tried.pause(0.2)
            if _attempts(tried, urgent) > before:
                break
        tried.release(lowest)
        tried.until(lambda: lowest not in tried.pods(), SOON, f"pod {lowest} is still there")

        def got_room(pod: str) -> bool:
            """Whether it has a node, or had one, from which it was evicted at once."""
            return bool(tried.node_of(pod)) or pod not in tried.pods()

        thief = tried.add_pod(new_name("thief"), cpu="3", priorityClassName="p2")
        tried.until(
            lambda: got_room(thief) or tried.events(thief, "FailedScheduling"),
            SOON,
            f"pod {thief} fits nowhere, and has no event FailedScheduling",
        )
        tried.require(
            not got_room(thief),
            f"pod {thief} has the priority 2, and got the room that {urgent} has freed",
        )
        where = _bound(tried, [urgent], LONGEST_BACKOFF)[urgent]
        tried.require(where == nodes[1], f"pod {urgent} is on {where}, not on {nodes[1]}, which it has freed")
        tried.require(not got_room(thief), f"pod {thief} has the priority 2, and got the room of {urgent}")
        tried.passed("the room is kept for the pod, which is nominated, and it is bound there")
        tried.delete_pod(thief)
        dune = tried.add_node(new_name("dune"))
        small = [tried.occupy(dune, cpu="1", priorityClassName=f"p{value}") for value in (10, 1, 5, 2)]
        tried.pause(SETTLE)
        last = tried.add_pod(new_name("last"), cpu="2", priorityClassName="p50")
        where = _bound(tried, [last], LONGEST_BACKOFF)[last]
        left = [name for name in small if name in tried.pods() and name not in tried.leaving()]
        tried.require(where == dune, f"pod {last} is on {where}, not on {dune}, where it does the least harm")
        tried.require(
            left == [small[0], small[2]],
            f"of four pods with 1 cpu and the priorities 10, 1, 5, 2, {len(left)} are left. Two had to go,"
            " of the lowest priorities",
        )
        tried.passed("no more pods are evicted than must, the least important ones first")
    return "it evicts as few as possible, and as unimportant ones as possible."


def _nobody_left(tried: Trial, names: Sequence[str]) -> None:
    tried.pause(1)
    gone = [name for name in names if name not in tried.pods() or name in tried.leaving()]
    tried.require(not gone, f"{' and '.join(gone)} was evicted, and that helps nobody")


CHECKS = (
    own_scheduler_binds_at_random,
    own_scheduler_knows_room,
    own_scheduler_looks_up_what_is_lost,
    own_scheduler_watches,
    own_scheduler_assumes,
    own_scheduler_backs_off_and_wakes,
    own_scheduler_scores,
    own_scheduler_permits,
    own_scheduler_preempts,
)
