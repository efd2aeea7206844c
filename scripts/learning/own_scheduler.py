"""The checks of lessons 20 to 23: a student's own scheduler is tried, and judged by what it does."""

from collections.abc import Sequence

from lib.kube.quantity import Quantity
from scripts.learning.lab import Json, Lab, node_of
from scripts.learning.trial import NAME, Trial, new_name, trial

SOON = 20.0  # seconds; a loop that polls each second, on a slow machine, has done it by then


def _nodes(tried: Trial, count: int) -> list[str]:
    """So many nodes with names that nobody knows before."""
    return [tried.add_node(new_name(each)) for each in ("amber", "birch", "cedar", "dune")[:count]]


def _bound(tried: Trial, names: Sequence[str], seconds: float = 0) -> dict[str, str]:
    """The nodes of pods, as soon as all have one."""

    seconds = seconds or SOON

    def waiting() -> list[str]:
        pods = tried.pods()
        return [name for name in names if name not in pods or not node_of(pods[name])]

    tried.until(
        lambda: not waiting(), seconds, lambda: f"{seconds:g} s later, without a node: {', '.join(waiting())}"
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


def _require_room(tried: Trial) -> None:
    """No node has more pods than room."""
    for node, has in tried.allocatable().items():
        there = {
            name: pod for name, pod in tried.pods().items() if node_of(pod) == node and not _is_over(pod)
        }
        for resource, most in has.items():
            used = sum(_requests(pod)[resource] for pod in there.values())
            tried.require(
                used <= Quantity.parse(most),
                f"node {node} has {most} of {resource}, and the requests of its pods are more:"
                f" {', '.join(sorted(there))}",
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
                amber, "it leaves nothing of the cpu: a pod that takes all that is free fits"
            ),
            tried.add_pod(new_name("wide"), cpu="2", memory="500M"): (
                birch, "containers are added up; and elsewhere there isn't as much cpu"
            ),
            tried.add_pod(new_name("tall"), cpu="400m", memory="6Gi"): (
                cedar, "only there is as much memory; a pod that has finished takes no room"
            ),
        }  # fmt: skip
        tried.start()
        found = _bound(tried, list(expected))
        for name, node in found.items():
            right, why = expected[name]
            tried.require(node == right, f"pod {name} is on {node}, not on {right}: {why}")
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


CHECKS = (own_scheduler_binds_at_random, own_scheduler_knows_room, own_scheduler_looks_up_what_is_lost)
