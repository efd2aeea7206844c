"""The checks of tasks in the cluster: one function per task, which the task's page names.

It returns what it saw, as a sentence. NotYetError when the task isn't done; its text says what it saw.
"""

import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec
import yaml

from lib.kube import objects
from lib.kube.objects import decode_hook
from lib.kube.quantity import Quantity
from lib.kube.selectors import matches_node, selects, untolerated
from lib.lazily import Lazy
from scripts.learning import own_scheduler, reading
from scripts.learning.lab import Json, Lab, NotYetError, condition, node_of, require
from scripts.learning.probe import (
    best_nodes,
    bound_by_script,
    fitting_nodes,
    placed_by_policy,
    why_not_on,
)
from scripts.servers.process import ROOT

if TYPE_CHECKING:
    from scripts.learning import contest
else:
    contest = Lazy("scripts.learning.contest")

Check = Callable[[Lab], str]

RESOURCE_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"

CHECKS: dict[str, Check] = {each.__name__: each for each in own_scheduler.CHECKS + reading.CHECKS}


def task(check: Check) -> Check:
    """Makes a function a check that pages can name."""
    CHECKS[check.__name__] = check
    return check


def the_nodes(lab: Lab) -> list[str]:
    """The nodes that pages call $NODE1, $NODE2 and so on."""
    return sorted(lab.nodes())


# --- 1: a pod is Pending ----------------------------------------------------------------------------------


@task
def web_waits(lab: Lab) -> str:
    """A pod `web` waits for my-scheduler."""
    pod = lab.pod("web")
    named = pod["spec"]["schedulerName"]
    require(named == "my-scheduler", f"pod web names the scheduler {named}")
    require(not node_of(pod), f"pod web is on {node_of(pod)} already: somebody has placed it")
    return "pod web names my-scheduler, and has no node."


# --- 2: bind it by hand -----------------------------------------------------------------------------------


@task
def web_is_on_the_second_node(lab: Lab) -> str:
    """`web` was bound to $NODE2, and not by poller."""
    pod, node = lab.bound("web")
    wanted = the_nodes(lab)[1]
    require(
        node == wanted, f"pod web is on {node}, not on {wanted}. A pod can't move: delete it, make it again"
    )
    require(decision_of(pod) is None, "pod web was bound by poller. Delete it, and do it by hand")
    require(
        not was_created_with_a_node(pod),
        "pod web was created with a nodeName, so no scheduler was needed, and no Binding. Delete it, create"
        " it for my-scheduler, and POST a Binding",
    )
    return f"pod web is on {wanted}, and you have put it there."


def was_created_with_a_node(pod: Json) -> bool:
    """Whether the pod's author has set its nodeName. A binding notes no field."""
    notes = [each.get("fieldsV1") or {} for each in pod["metadata"].get("managedFields") or ()]
    return any("f:nodeName" in note.get("f:spec", {}) for note in notes)


def require_placed(*pods: Json) -> None:
    """NotYetError if a pod has no node, or was created with one, so that no scheduler was needed."""
    waiting = [pod["metadata"]["name"] for pod in pods if not node_of(pod)]
    require(not waiting, f"without a node: {', '.join(waiting)}")
    created = [pod["metadata"]["name"] for pod in pods if was_created_with_a_node(pod)]
    require(
        not created,
        f"created with a nodeName, and not bound by a scheduler: {', '.join(created)}. Create it without one",
    )


def placed_at(pod: Json) -> datetime:
    """When a pod was bound."""
    conditions = pod["status"]["conditions"]
    return next(_time(each["lastTransitionTime"]) for each in conditions if each["type"] == "PodScheduled")


def failures(lab: Lab, pod: Json) -> list[str]:
    """What events say of attempts at this pod that failed, not at an earlier one of its name."""
    return [
        str(event.get("message"))
        for event in lab.events("FailedScheduling", pod["metadata"]["name"])
        if event["involvedObject"].get("uid") in (None, pod["metadata"]["uid"])
    ]


# --- 3: a loop in bash ------------------------------------------------------------------------------------


@task
def a_pod_is_on_a_cordoned_node(lab: Lab) -> str:
    """A pod was bound to a node that is cordoned."""
    cordoned = {name for name, node in lab.nodes().items() if node["spec"].get("unschedulable")}
    require(cordoned, "no node is cordoned")
    found = [pod for pod in lab.pods() if node_of(pod) in cordoned and pod["metadata"]["name"] != "nginx"]
    require(found, f"no new pod is on {' or '.join(sorted(cordoned))}")
    return f"{found[0]['metadata']['name']} is on {node_of(found[0])}, which is cordoned."


@task
def all_six_are_on_the_third_node(lab: Lab) -> str:
    """The pods of the Deployment `six` are all on $NODE3, and the other nodes are cordoned still."""
    nodes = lab.nodes()
    *others, wanted = the_nodes(lab)[:3]
    for name in others:
        require(nodes[name]["spec"].get("unschedulable"), f"{name} isn't cordoned any more")
    pods = lab.pods("app=six")
    require(len(pods) == 6, f"there are {len(pods)} pods with the label app=six, not 6")
    require_placed(*pods)
    wrong = sorted({node_of(pod) for pod in pods} - {wanted})
    require(
        not wrong, f"some of the six are on {' and '.join(wrong)}: delete them, and look at the script again"
    )
    require(not any(decision_of(pod) for pod in pods), "it was poller that has placed them")
    script = lab.folder / "scheduler.sh"
    require(script.is_file(), "there is no .lab/scheduler.sh: which script has placed them?")
    other = others[0]
    found = bound_by_script(lab, script, free=other, cordoned=wanted)
    require(found, "they are there, but .lab/scheduler.sh hasn't bound two other pods within 10 s")
    require(
        found == {other},
        f"they are there, but it isn't cordons that .lab/scheduler.sh respects: with {wanted} cordoned and"
        f" {other} free, it has bound pods to {' and '.join(sorted(found))}",
    )
    return f"all six are on {wanted}; and with {wanted} cordoned, your script takes {other}."


def decision_of(pod: Json) -> Json | None:
    """The decision that poller wrote on a pod when it bound it; None if poller didn't bind it."""
    said = pod["metadata"].get("annotations", {}).get("poller/decision")
    return dict(json.loads(said)) if said else None


def is_ready(pod: Json) -> bool:
    """Whether a pod runs."""
    return condition(pod, "Ready") == "True"


# --- 4: the same loop in Python -----------------------------------------------------------------------------


@task
def three_of_api_have_a_node_each(lab: Lab) -> str:
    """Three of four pods, which need a node each, have one, and an event says why the fourth has none."""
    pods = lab.pods("app=api")
    require(len(pods) == 4, f"the Deployment api has {len(pods)} pods, not 4")
    placed = [pod for pod in pods if node_of(pod)]
    node, many = Counter(map(node_of, placed)).most_common(1)[0] if placed else ("", 0)
    require(
        many <= 1,
        f"{many} of them are on {node}, which has room for one: that is how the bash loop places them. Delete"
        " the Deployment, apply it again, and let poller place it",
    )
    require(len(placed) == 3, f"{len(placed)} of them have a node, and there is room for 3")
    require_placed(*placed)
    (waits,) = (pod for pod in pods if not node_of(pod))
    require(failures(lab, waits), f"no event says why pod {waits['metadata']['name']} has no node")
    return "three have a node each, and an event says why the fourth has none."


@task
def more_is_placed(lab: Lab) -> str:
    """The pods of more.yaml run, and a scheduler has placed them that says so."""
    pods = [lab.pod("picky"), lab.pod("large"), *lab.pods("app=sleep")]
    require(len(pods) == 5, f"the Deployment sleep has {len(pods) - 2} pods, not 3")
    require_placed(*pods)
    require(all(map(is_ready, pods)), "they have nodes, but not all of them run yet")
    told = {event["involvedObject"]["name"] for event in lab.events("Scheduled")}
    silent = {pod["metadata"]["name"] for pod in pods} - told
    require(not silent, f"no event says who placed {', '.join(sorted(silent))}")
    return "all five run, and each has an event that says who placed it."


# --- 5: filters -------------------------------------------------------------------------------------------


@task
def ssd_is_placed(lab: Lab) -> str:
    """`ssd` is on a node that has the label it asks for."""
    pod = lab.pod("ssd")
    labelled = [
        name for name, node in lab.nodes().items() if node["metadata"]["labels"].get("lab-disk") == "ssd"
    ]
    require(labelled, "no node has the label lab-disk=ssd")
    require(
        node_of(pod),
        f"pod ssd has no node yet. The label is on {' and '.join(labelled)} now; what does poller say?",
    )
    require("lab-disk" in pod["spec"].get("nodeSelector", {}), "pod ssd asks for no label any more")
    require(node_of(pod) in labelled, f"pod ssd is on {node_of(pod)}, which hasn't the label")
    require_placed(pod)
    first, second, *_ = the_nodes(lab)
    nodes = lab.nodes()
    require(
        nodes[first]["spec"].get("unschedulable"), f"{first} isn't cordoned any more: leave that as it is"
    )
    taints = nodes[second]["spec"].get("taints") or ()
    require(any(taint["key"] == "lab-only" for taint in taints), f"{second} has its taint no more: leave it")
    return f"pod ssd is on {node_of(pod)}."


@task
def tester_is_on_the_tainted_node(lab: Lab) -> str:
    """`tester` was placed on $NODE2, whose taint is there still."""
    wanted = the_nodes(lab)[1]
    taints = lab.nodes()[wanted]["spec"].get("taints") or ()
    require(any(taint["key"] == "lab-only" for taint in taints), f"{wanted} has its taint no more")
    heavy = lab.pod("heavy")
    require(node_of(heavy) == wanted, f"pod heavy isn't on {wanted} any more: learn again puts it there")
    pod, node = lab.bound("tester")
    require(node == wanted, f"pod tester is on {node}: it may go to {wanted}, but nothing draws it there")
    require_placed(pod)
    known = msgspec.convert(pod, objects.Pod, dec_hook=decode_hook)
    there = [msgspec.convert(taint, objects.Taint) for taint in taints]
    repelled = untolerated(known, there, ("NoSchedule", "NoExecute"))
    require(not repelled, f"pod tester doesn't tolerate the taint of {wanted}: was it away for a moment?")
    return f"pod tester is on {wanted}, where others aren't let in."


# --- 6: scores --------------------------------------------------------------------------------------------


@task
def medium_went_where_you_said(lab: Lab) -> str:
    """`medium` was predicted, and placed there."""
    return predicted(lab, "medium")


@task
def picky_went_where_it_prefers(lab: Lab) -> str:
    """`picky` prefers a node with a label, was predicted, and placed there."""
    pod = lab.pod("picky")
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution")
    require(preferred, "pod picky prefers nothing")
    require(
        "requiredDuringSchedulingIgnoredDuringExecution" not in affinity,
        "pod picky requires a node; it is to prefer one only",
    )
    asked = [each.get("resources", {}).get("requests") or {} for each in pod["spec"]["containers"]]
    require(
        [(_milli(each.get("cpu", "0")), _milli(each.get("memory", "0"))) for each in asked]
        == [(_milli("500m"), _milli("512Mi"))],
        "pod picky doesn't request 500m of cpu and 512Mi of memory, as medium does",
    )
    first, node = the_nodes(lab)[0], lab.nodes()[the_nodes(lab)[0]]
    require(node["metadata"]["labels"].get("lab-disk") == "ssd", f"{first} hasn't the label lab-disk=ssd")
    return predicted(lab, "picky")


def predicted(lab: Lab, name: str) -> str:
    """A pod that a scheduler, as good as kube-scheduler, placed where an annotation had predicted."""
    pod = lab.pod(name)
    said = pod["metadata"].get("annotations", {}).get("lab/prediction")
    require(said, f"pod {name} has no annotation lab/prediction: where do you think it will go?")
    require(said in lab.nodes(), f"there is no node {said}: {', '.join(the_nodes(lab))}")
    node = node_of(pod)
    require(node, f"you say that {name} will go to {said}. It has no node yet: let poller place it")
    require_placed(pod)
    if said != node:
        why = why_not_on(lab, pod, said)
        raise NotYetError(f"you said {said}, and it went to {node}. {why} Delete the pod, and try again")
    if not decision_of(pod):
        best = best_nodes(lab, pod)
        require(
            node in best, f"pod {name} is on {node}; by kube-scheduler's scores, {', '.join(best)} is best"
        )
    require(
        not was_changed_after_its_placement(pod),
        f"pod {name} was changed after it was placed, so nobody knows what you said before. Delete it, create"
        " it again, and predict first",
    )
    return f"you said {said}, and there it went."


def was_changed_after_its_placement(pod: Json) -> bool:
    """Whether somebody has changed a pod, beside its status, after its binding."""
    conditions = pod.get("status", {}).get("conditions") or ()
    placed = next((each["lastTransitionTime"] for each in conditions if each["type"] == "PodScheduled"), "")
    notes = [each for each in pod["metadata"].get("managedFields") or () if not each.get("subresource")]
    return bool(placed) and any(each["time"] > placed for each in notes)


# --- 7: a policy of your own ------------------------------------------------------------------------------


@task
def modest_is_placed_and_miser_waits(lab: Lab) -> str:
    """`modest` is on the cheap node by the student's policy, whose reason against the others `miser` has."""
    pod, node = lab.bound("modest")
    wanted = the_nodes(lab)[1]
    require(node == wanted, f"pod modest is on {node}, which costs more than it wants to pay")
    scores = (decision_of(pod) or {}).get("scores", {})
    require_placed(pod)
    miser = lab.pod("miser")
    require(not node_of(miser), f"pod miser is on {node_of(miser)}, which costs more than it wants to pay")
    told = failures(lab, miser)
    require(told, "poller hasn't tried pod miser yet")
    said = f'the event of pod miser doesn\'t say "too dear", but: {told[-1]}'
    require(any("too dear" in words for words in told), said)
    policy = lab.folder / "mine.py"
    require(policy.is_file(), "there is no .lab/mine.py: which policy has placed them?")
    first, second, third = the_nodes(lab)[:3]
    found = placed_by_policy(
        lab,
        policy,
        {first: "0.10", second: "0.50", third: "0.04"},
        {"pays-0.20": "0.20", "pays-0.05": "0.05"},
    )
    require(found, "they are there, but .lab/mine.py can't be loaded now, or is slow")
    where = f"with the prices 0.10, 0.50 and 0.04 for {first}, {second} and {third}, .lab/mine.py puts a pod"
    for most, allowed in (("0.20", (first, third)), ("0.05", (third,))):
        chosen = found[f"pays-{most}"]
        on = chosen if chosen in lab.nodes() else f"no node: {chosen}"
        require(chosen in allowed, f"{where} that pays at most {most} on {on}")
    found = placed_by_policy(lab, policy, {second: ".5"}, {"any": None, "same": "0.50", "less": "0.05"})
    require(
        found.get("any") == second,
        "a pod without a maximum price pays any price, but .lab/mine.py keeps it away from a node for .5",
    )
    require(
        found["same"] == second, ".lab/mine.py keeps a pod that pays at most 0.50 away from a node for .5"
    )
    require(
        found["less"] != second,
        ".lab/mine.py puts a pod that pays at most 0.05 on a node for .5: compare numbers, not texts",
    )
    scores_words = f", scored by {' + '.join(scores)}" if scores else ""
    return (
        f"pod modest is on {node}{scores_words}; pod miser waits; and with other prices, they go elsewhere."
    )


# --- 8: the queue -----------------------------------------------------------------------------------------


@task
def the_follower_is_beside_the_leader(lab: Lab) -> str:
    """`follower` was tried in vain, and then placed beside a pod with the label app=leader."""
    follower = lab.pod("follower")
    require(failures(lab, follower), "no scheduler has tried this pod follower in vain yet")
    require(
        "podAffinity" in follower["spec"].get("affinity", {}),
        "pod follower doesn't ask for a leader any more",
    )
    others = [pod for pod in lab.pods("app=leader") if pod["metadata"]["name"] != "follower"]
    leaders = [node_of(pod) for pod in others if node_of(pod)]
    require(leaders, "no other pod with the label app=leader has a node: nobody can be one's own leader")
    require(node_of(follower), "pod follower has no node yet; does poller run?")
    require(node_of(follower) in leaders, f"pod follower is on {node_of(follower)}, without a leader")
    require_placed(follower)
    return f"pod follower was woken, and is on {node_of(follower)}, beside its leader."


@task
def the_gate_is_open(lab: Lab) -> str:
    """`gated` has no gate any more, and a node."""
    pod = lab.pod("gated")
    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
    require(not gates, f"pod gated still has the gate {', '.join(gates)}")
    require(node_of(pod), "the gate is open, but pod gated has no node yet: let poller place it")
    require_placed(pod)
    # Each change of its spec counts; before 1.33 nothing counts them.
    never_gated = pod["metadata"].get("generation") == 1
    require(not never_gated, "this pod gated never had a gate: learn again makes the one that has")
    return f"the gate is open, and pod gated is on {node_of(pod)}."


# --- 9: Permit, and a gang --------------------------------------------------------------------------------


@task
def the_gang_is_placed(lab: Lab) -> str:
    """Three pods of the group `training` have nodes."""
    members = lab.pods("poller/group=training")
    require(len(members) >= 3, f"the group training has {len(members)} pods; it needs 3")
    sizes = {(pod["metadata"].get("annotations") or {}).get("poller/group-size") for pod in members}
    require(sizes == {"3"}, "not each of them says in its annotation that the group has 3 pods")
    require_placed(*members)
    first, last = min(members, key=placed_at), max(members, key=_created)
    require(
        placed_at(first) >= _created(last),
        f"pod {first['metadata']['name']} got its node before {last['metadata']['name']} existed: a gang is"
        " placed together. learn again starts over",
    )
    return f"all {len(members)} pods of the group have a node."


# --- 10: preemption ---------------------------------------------------------------------------------------


@task
def polite_waits(lab: Lab) -> str:
    """`polite` is important, wants the port, was tried, and takes nobody's place."""
    found = lab.get("/apis/scheduling.k8s.io/v1/priorityclasses/lab-polite")
    require(found, "there is no priority class lab-polite")
    assert found is not None
    require(found["value"] == 1000, f"the class lab-polite is worth {found['value']}, not 1000")
    require(found.get("preemptionPolicy") == "Never", "pods of the class lab-polite take others' place")
    pod = lab.pod("polite")
    named = pod["spec"].get("priorityClassName")
    require(named == "lab-polite", f"pod polite is of the class {named}")
    ports = [port.get("hostPort") for each in pod["spec"]["containers"] for port in each.get("ports") or ()]
    require(8099 in ports, "pod polite doesn't want port 8099 of its node")
    require(not node_of(pod), f"pod polite is on {node_of(pod)}: there was room. learn again fills it")
    require(failures(lab, pod), "no scheduler has tried this pod polite yet")
    require(not victims_of(lab, pod), "pod polite has taken somebody's place")
    return "pod polite waits, and nobody had to go."


def victims_of(lab: Lab, pod: Json) -> list[str]:
    """The pods that were evicted for this pod, not for an earlier one of its name, as their events say."""
    return [
        event["involvedObject"]["name"]
        for event in lab.events("Preempted")
        if (event.get("related") or {}).get("uid") == pod["metadata"]["uid"]
    ]


# --- 11: deploy it ----------------------------------------------------------------------------------------

RBAC = "/apis/rbac.authorization.k8s.io/v1"
CLUSTER_ROLE = f"{RBAC}/clusterroles/poller"

PERMISSIONS = ROOT / "scripts/deploy/permissions.yaml"

OF_THE_ACCOUNT = {
    ("ServiceAccount", "poller"),
    ("User", "system:serviceaccount:poller:poller"),
    ("Group", "system:serviceaccounts:poller"),
    ("Group", "system:serviceaccounts"),
    ("Group", "system:authenticated"),
}
"""The subjects of bindings that give rights to the ServiceAccount poller."""

IN_THE_POD = ".learn/in-the-pod"
"""A file in the lab's folder: as-in-the-pod.sh notes in each line when a poller has begun and ended."""


def may_bind(lab: Lab) -> bool:
    """Whether the ClusterRole `poller` lets it write bindings."""
    rules = (lab.get(CLUSTER_ROLE) or {}).get("rules") or ()
    return any("pods/binding" in rule["resources"] and "create" in rule["verbs"] for rule in rules)


def rights(rules: list[Json]) -> set[tuple[str, str, str]]:
    """The group, resource and verb of each right."""
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule.get("apiGroups") or ()
        for resource in rule.get("resources") or ()
        for verb in rule.get("verbs") or ()
    }


def require_no_more_rights(lab: Lab) -> None:
    """NotYetError if poller may do more than the shipped ClusterRole says."""
    shipped = next(
        each for each in yaml.safe_load_all(PERMISSIONS.read_text()) if each["kind"] == "ClusterRole"
    )
    role = lab.get(CLUSTER_ROLE) or {}
    more = sorted(rights(role.get("rules") or []) - rights(shipped["rules"]))
    require(not more, "the ClusterRole poller has rights that poller doesn't need: " + _right(more))
    for kind in ("clusterrolebindings", "rolebindings"):
        for binding in lab.items(f"{RBAC}/{kind}"):
            name, subjects = binding["metadata"]["name"], binding.get("subjects") or ()
            ours = any((subject["kind"], subject["name"]) in OF_THE_ACCOUNT for subject in subjects)
            require(
                not ours or name == "poller" or name.startswith("system:"),
                f"{binding['roleRef']['kind']} {binding['roleRef']['name']} is granted to poller, too, by the"
                f" {kind.removesuffix('s')} {name}: that is more than it needs. Delete that",
            )


def _right(rights: list[tuple[str, str, str]]) -> str:
    return ", ".join(f"{verb} {resource}" for _, resource, verb in rights[:3])


def was_placed_in_the_pod(lab: Lab, pod: Json) -> bool:
    """Whether a pod was bound while as-in-the-pod.sh ran. Known only where the cluster has our clock."""
    if not lab.own:
        return True
    at = placed_at(pod)
    file = lab.folder / IN_THE_POD
    lines = file.read_text().splitlines() if file.is_file() else []
    times = [[datetime.fromisoformat(word).astimezone(UTC) for word in line.split()] for line in lines]
    second = timedelta(seconds=1)  # times of the API are whole seconds
    return any(began - second < at <= ended for began, ended in times)


WITH_OWN_RIGHTS = (
    "placed with your own rights: {}. Delete and create again, then use scripts/lab/as-in-the-pod.sh"
)


@task
def sleep_runs_and_poller_has_its_rights(lab: Lab) -> str:
    """The rights are granted, and no more, and with them the pods of `sleep` were placed."""
    binding = CLUSTER_ROLE.replace("clusterroles", "clusterrolebindings")
    require(lab.get(CLUSTER_ROLE), "there is no ClusterRole poller")
    require(lab.get(binding), "there is no ClusterRoleBinding poller: who has the rules of the ClusterRole?")
    require(may_bind(lab), "the ClusterRole poller doesn't let it create pods/binding")
    require_no_more_rights(lab)
    pods = lab.pods("app=sleep")
    require(len(pods) == 3, f"the Deployment sleep has {len(pods)} pods, not 3")
    ready = sum(map(is_ready, pods))
    require(ready == 3, f"{ready} of 3 pods of sleep run")
    require(all(map(decision_of, pods)), "the pods of sleep weren't placed by poller")
    own = [pod["metadata"]["name"] for pod in pods if not was_placed_in_the_pod(lab, pod)]
    require(not own, WITH_OWN_RIGHTS.format(", ".join(own)))
    return "the Deployment sleep runs, and poller has placed it with the rights of its ServiceAccount."


@task
def nginx_is_placed_with_the_rights_back(lab: Lab) -> str:
    """poller may write bindings again, and with its own rights has placed `nginx`."""
    require(may_bind(lab), "the ClusterRole poller doesn't let it create pods/binding")
    require_no_more_rights(lab)
    pod, node = lab.bound("nginx")
    require(decision_of(pod), "pod nginx wasn't placed by poller")
    require(was_placed_in_the_pod(lab, pod), WITH_OWN_RIGHTS.format("pod nginx"))
    return f"pod nginx is on {node}, and poller has put it there with its own rights."


# --- 12: requests, limits, and real use -------------------------------------------------------------------


@task
def all_four_of_api_run(lab: Lab) -> str:
    """The four pods of `api` are placed: they reserve less, and may still use 3 cpu."""
    pods = lab.pods("app=api")
    require(len(pods) == 4, f"the Deployment api has {len(pods)} pods, not 4{_because(pods, 4)}")
    for pod in pods:
        resources = pod["spec"]["containers"][0].get("resources") or {}
        limit = (resources.get("limits") or {}).get("cpu", "")
        require(limit, "there is no limit for cpu any more: a pod may use 3 cpu, and no more")
        require(_milli(limit) == 3000, f"the limit is {limit} now: with work to do, a pod may not use 3 cpu")
        request = (resources.get("requests") or {}).get("cpu", "0")
        require(_milli(request) <= 1000, f"a pod still reserves {request} of cpu")
        require(_milli(request) >= 500, f"a pod reserves {request} of cpu, but usually it uses half a cpu")
    require_placed(*pods)
    return "all four have a node: each reserves less, and may still use 3 cpu."


def _because(pods: list[Json], wanted: int) -> str:
    """What to do when there are old and new pods of a Deployment."""
    return ": old ones are there still. Let poller place the new ones" if len(pods) > wanted else ""


def _milli(amount: str) -> int:
    return Quantity.parse(amount).milli


# --- 13: spreading ----------------------------------------------------------------------------------------


@task
def five_of_db_are_spread(lab: Lab) -> str:
    """The five pods of `db` are placed evenly, by a rule of their own."""
    pods = lab.pods("app=db")
    require(len(pods) == 5, f"the Deployment db has {len(pods)} pods, not 5{_because(pods, 5)}")
    for pod in pods:
        rules = [
            each
            for each in pod["spec"].get("topologySpreadConstraints") or ()
            if each["topologyKey"] == "kubernetes.io/hostname"
        ]
        name = pod["metadata"]["name"]
        require(rules, f"pod {name} has no spread constraint for nodes (kubernetes.io/hostname)")
        how = rules[0]["whenUnsatisfiable"]
        require(how == "DoNotSchedule", f"the constraint is only a wish: whenUnsatisfiable is {how}")
        require(
            rules[0]["maxSkew"] == 1, f"maxSkew is {rules[0]['maxSkew']}: numbers may differ by that much"
        )
        selector = msgspec.convert(rules[0].get("labelSelector"), objects.LabelSelector | None)
        require(
            selects(selector, pod["metadata"]["labels"]),
            "the constraint's labelSelector doesn't count the pods with app=db",
        )
        require(
            not selects(selector, {"app": "other"}), "the constraint's labelSelector counts other pods, too"
        )
    require_placed(*pods)
    counts = Counter(map(node_of, pods))
    numbers = [counts[name] for name in the_nodes(lab)]
    require(max(numbers) - min(numbers) <= 1, f"the nodes have {numbers} of them")
    return f"the nodes have {numbers} of the five pods, and that is a rule."


# --- 14: volumes and zones --------------------------------------------------------------------------------


@task
def store_is_beside_its_disk(lab: Lab) -> str:
    """`store` runs in zone a, with its claim, and `heavy` elsewhere."""
    first, *others = the_nodes(lab)
    zones = {
        name: node["metadata"]["labels"].get("topology.kubernetes.io/zone")
        for name, node in lab.nodes().items()
    }
    moved = [name for name, zone in zones.items() if zone != ("a" if name == first else "b")]
    require(not moved, f"the zone of {', '.join(moved)} was changed: nodes can't move, either")
    volume = lab.get("/api/v1/persistentvolumes/lab-disk")
    affinity = ((volume or {}).get("spec") or {}).get("nodeAffinity")
    require("'values': ['a']" in str(affinity), "the disk isn't in zone a any more: it can't move")
    pod, node = lab.bound("store")
    claims = [
        each.get("persistentVolumeClaim", {}).get("claimName") for each in pod["spec"].get("volumes") or ()
    ]
    require("data" in claims, "pod store has lost its claim: it would run without its data")
    request = pod["spec"]["containers"][0].get("resources", {}).get("requests", {}).get("cpu", "0")
    require(_milli(request) == 2000, f"pod store requests {request} of cpu, not 2")
    require_placed(pod)
    _, elsewhere = lab.bound("heavy")
    require(elsewhere in others, f"pod heavy is on {elsewhere}, too: 5 of 4 cpu are reserved there")
    return f"pod store is on {node}, where its disk is."


# --- 15: disruption budgets -------------------------------------------------------------------------------


@task
def a_node_is_drained_within_the_budget(lab: Lab) -> str:
    """A cordoned node has no pod of `shop`, two or more run elsewhere, and the budget is as it was."""
    budget = lab.get("/apis/policy/v1/namespaces/default/poddisruptionbudgets/shop")
    require(budget, "the budget shop is gone: nothing would have kept the shop open")
    assert budget is not None
    kept = budget["spec"].get("minAvailable") == 2 and budget["metadata"].get("generation", 1) == 1
    require(kept, "the budget shop was changed: learn again brings the old one back")
    pods = lab.pods("app=shop")
    cordoned = [name for name, node in lab.nodes().items() if node["spec"].get("unschedulable")]
    require(cordoned, "no node is cordoned")
    still = {node_of(pod) for pod in pods} & set(cordoned)
    require(not still, f"{', '.join(still)} still has a pod of the shop")
    ready = sum(map(is_ready, pods))
    require(ready >= 2, f"{ready} pods of the shop run, not 2")
    require(
        len(pods) >= 3,
        "the shop has two pods only: either one was away for a while, or the third is gone already; leave it",
    )
    require(
        not _replaced_early(lab, pods),
        "one of the two pods was replaced before there was a third, so there was only one for a while. learn"
        " again, and let the API server evict it",
    )
    return f"{', '.join(cordoned)} can be repaired, and {ready} pods of the shop run."


AT_ONCE = timedelta(seconds=5)
"""So long after its creation a Deployment's first pods are created, at most."""


def _replaced_early(lab: Lab, pods: list[Json]) -> bool:
    """Whether one of the pods is newer than the first ones, and yet older than the change of the number."""
    deployment = lab.get("/apis/apps/v1/namespaces/default/deployments/shop") or {"metadata": {}}
    notes = deployment["metadata"].get("managedFields") or ()
    people = [each for each in notes if each["manager"] != "kube-controller-manager"]
    changes = [_time(each["time"]) for each in people if each.get("subresource") != "status"]
    if not changes:
        return False
    begun = _created(deployment) + AT_ONCE
    return any(begun < _created(pod) < max(changes) for pod in pods)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _created(thing: Json) -> datetime:
    return _time(thing["metadata"]["creationTimestamp"])


# --- 16: two schedulers -----------------------------------------------------------------------------------


@task
def the_schedulers_share_no_node(lab: Lab) -> str:
    """Pods of `theirs` are on $NODE3 only, those of `ours` on the others, by rules."""
    *others, third = the_nodes(lab)[:3]
    nodes = {
        name: msgspec.convert(node, objects.Node, dec_hook=decode_hook) for name, node in lab.nodes().items()
    }
    hard = [taint for taint in nodes[third].spec.taints if taint.effect in ("NoSchedule", "NoExecute")]
    require(hard, f"{third} has no taint: what keeps the pods of ours away, if all other nodes are full")
    for app, scheduler, allowed in (
        ("theirs", "other-scheduler", [third]),
        ("ours", "my-scheduler", others),
    ):
        pods = lab.pods(f"app={app}")
        require(len(pods) == 2, f"the Deployment {app} has {len(pods)} pods, not 2")
        for pod in pods:
            name, spec = pod["metadata"]["name"], pod["spec"]
            require(
                spec["schedulerName"] == scheduler, f"pod {name} names the scheduler {spec['schedulerName']}"
            )
            known = msgspec.convert(pod, objects.Pod, dec_hook=decode_hook)
            drawn = [node for node in others if _is_drawn_to(known, nodes[node])]
            require(
                app == "ours" or not drawn,
                f"pod {name} is let in, but no rule keeps it away from {' and '.join(drawn)}",
            )
            repelled = untolerated(known, nodes[third].spec.taints, ("NoSchedule", "NoExecute"))
            require(
                app == "theirs" or repelled or not _is_drawn_to(known, nodes[third]),
                f"pod {name} tolerates the taint of {third}, so it may go there",
            )
            require_placed(pod)
            require(node_of(pod) in allowed, f"pod {name} is on {node_of(pod)}")
    return f"theirs are on {third}, ours elsewhere, and that is a rule."


def _is_drawn_to(pod: objects.Pod, node: objects.Node) -> bool:
    """Whether the pod's nodeSelector and required node affinity let it go to a node."""
    affinity = pod.spec.affinity
    wanted = affinity.node_affinity if affinity else None
    required = wanted.required_during_scheduling_ignored_during_execution if wanted else None
    return pod.spec.node_selector.items() <= node.metadata.labels.items() and (
        not required or matches_node(required, node)
    )


# --- 17: sampling at scale --------------------------------------------------------------------------------


@task
def fast_is_on_the_best_of_all(lab: Lab) -> str:
    """`fast` is on the node with the disk, of its own choice, and all nodes were looked at."""
    pod, node = lab.bound("fast")
    require_placed(pod)
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    require(
        not pod["spec"].get("nodeSelector")
        and "requiredDuringSchedulingIgnoredDuringExecution" not in affinity,
        "pod fast requires a node now; it is to prefer one only",
    )
    require(node == "lab-200", f"pod fast is on {node}, not on lab-200")
    if decision := decision_of(pod):
        found, fit = int(decision["feasible"].partition("/")[0]), fitting_nodes(lab, pod)
        require(
            found >= fit,
            f"poller looked until it had {found} of the {fit} nodes that fit: that lab-200 is one of them was"
            " luck. Delete the pod, and try again",
        )
    return f"pod fast is on {node}, the best of all nodes."


# --- 18: a day of a real cluster --------------------------------------------------------------------------


@task
def best_fit_is_beaten(lab: Lab) -> str:
    """The policy in day.py allocates more GPUs than best fit, in orders that nobody knows."""
    file = lab.folder / "day.py"
    require(file.is_file(), f"there is no file {file}")
    played = contest.play(file)
    require(played.own is not None, f"day.py: {played.problem}")
    said = f"day.py allocates {played.own:.1f} % of the GPUs, and best fit {played.best_fit:.1f} %"
    require(played.is_better, said)
    return f"{said}."


# --- 19: a GPU for a pod ----------------------------------------------------------------------------------


@task
def both_pods_have_a_gpu(lab: Lab) -> str:
    """`train` has the large GPU, and `second` the other one, as its own claim says."""
    devices = {}
    for name in ("train", "second"):
        pod, _ = lab.bound(name)
        require_placed(pod)
        named = [each.get("resourceClaimName") for each in pod["spec"].get("resourceClaims") or ()]
        require(named == [name], f"pod {name} doesn't use the claim {name}")
        claim = lab.get(f"{RESOURCE_CLAIMS}/{name}") or {}
        allocation = claim.get("status", {}).get("allocation") or {}
        results = allocation.get("devices", {}).get("results") or [{}]
        devices[name] = results[0].get("device")
        require(devices[name], f"the claim {name} has no device")
    require(devices["train"] == "gpu-1", "train has lost the large GPU")
    found = lab.get("/apis/resource.k8s.io/v1/resourceslices/lab-gpus") or {}
    there = [each["name"] for each in found.get("spec", {}).get("devices", ())]
    require(there == ["gpu-0", "gpu-1"], f"the node has other GPUs now: {', '.join(there)}")
    require(devices["second"] == "gpu-0", f"second has {devices['second']}, as train does")
    return "train has gpu-1, and second has gpu-0."
