"""The checks of tasks in the cluster: one function per task, which the task's page names.

It returns what it saw, as a sentence. NotYetError when the task isn't done; its text says what it saw.
"""

import json
from collections.abc import Callable

from scripts.learning.lab import Json, Lab, NotYetError, condition, node_of

Check = Callable[[Lab], str]

CHECKS: dict[str, Check] = {}


def task(check: Check) -> Check:
    """Makes a function a check that pages can name."""
    CHECKS[check.__name__] = check
    return check


def require(holds: object, instead: str) -> None:
    """Raise NotYetError with this text unless the condition holds."""
    if not holds:
        raise NotYetError(instead)


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
    return f"pod web is on {wanted}, and you have put it there."


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
    waiting = [pod for pod in pods if not node_of(pod)]
    require(not waiting, f"{len(waiting)} of the six have no node yet")
    wrong = sorted({node_of(pod) for pod in pods} - {wanted})
    require(
        not wrong, f"some of the six are on {' and '.join(wrong)}: delete them, and look at the script again"
    )
    require(not any(decision_of(pod) for pod in pods), "it was poller that has placed them")
    return f"all six are on {wanted}."


def decision_of(pod: Json) -> Json | None:
    """The decision that poller wrote on a pod when it bound it; None if poller didn't bind it."""
    said = pod["metadata"].get("annotations", {}).get("poller/decision")
    return dict(json.loads(said)) if said else None


def is_ready(pod: Json) -> bool:
    """Whether a pod runs."""
    return condition(pod, "Ready") == "True"


# --- 4: the same loop in Python -----------------------------------------------------------------------------


@task
def more_is_placed_by_poller(lab: Lab) -> str:
    """The pods of more.yaml run, and poller has placed them."""
    pods = [lab.pod("picky"), lab.pod("large"), *lab.pods("app=sleep")]
    require(len(pods) == 5, f"the Deployment sleep has {len(pods) - 2} pods, not 3")
    waiting = [pod["metadata"]["name"] for pod in pods if not node_of(pod)]
    require(not waiting, f"without a node: {', '.join(waiting)}")
    others = [pod["metadata"]["name"] for pod in pods if not decision_of(pod)]
    require(not others, f"not placed by poller: {', '.join(others)}")
    require(all(map(is_ready, pods)), "they have nodes, but not all of them run yet")
    told = {event["involvedObject"]["name"] for event in lab.events("Scheduled")}
    require({pod["metadata"]["name"] for pod in pods} <= told, "not all of them have an event yet")
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
        f"pod ssd has no node yet. {' and '.join(labelled)} has the label now; what does poller say?",
    )
    require("lab-disk" in pod["spec"].get("nodeSelector", {}), "pod ssd asks for no label any more")
    return f"pod ssd is on {node_of(pod)}."


@task
def tester_is_on_the_tainted_node(lab: Lab) -> str:
    """`tester` was placed on $NODE2, whose taint is there still."""
    wanted = the_nodes(lab)[1]
    taints = lab.nodes()[wanted]["spec"].get("taints") or ()
    require(any(taint["key"] == "lab-only" for taint in taints), f"{wanted} has its taint no more")
    pod, node = lab.bound("tester")
    require(node == wanted, f"pod tester is on {node}: it may go to {wanted}, but nothing draws it there")
    require(decision_of(pod), "pod tester wasn't placed by poller")
    return f"pod tester is on {wanted}, where others aren't let in."


# --- 6: scores --------------------------------------------------------------------------------------------


@task
def medium_went_where_you_said(lab: Lab) -> str:
    """`medium` was predicted, and placed there."""
    return predicted(lab, "medium")


@task
def picky_went_where_it_prefers(lab: Lab) -> str:
    """`picky` prefers a node with a label, was predicted, and placed there."""
    affinity = lab.pod("picky")["spec"].get("affinity", {}).get("nodeAffinity", {})
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution")
    require(preferred, "pod picky prefers nothing")
    require(
        "requiredDuringSchedulingIgnoredDuringExecution" not in affinity,
        "pod picky requires a node; it is to prefer one only",
    )
    first, node = the_nodes(lab)[0], lab.nodes()[the_nodes(lab)[0]]
    require(node["metadata"]["labels"].get("lab-disk") == "ssd", f"{first} hasn't the label lab-disk=ssd")
    return predicted(lab, "picky")


def predicted(lab: Lab, name: str) -> str:
    """A pod that poller placed on the node that an annotation had predicted."""
    pod = lab.pod(name)
    said = pod["metadata"].get("annotations", {}).get("lab/prediction")
    require(said, f"pod {name} has no annotation lab/prediction: where do you think it will go?")
    require(said in lab.nodes(), f"there is no node {said}: {', '.join(the_nodes(lab))}")
    node = node_of(pod)
    require(node, f"you say that {name} will go to {said}. It has no node yet: let poller place it")
    require(decision_of(pod), f"pod {name} wasn't placed by poller")
    require(
        said == node,
        f"you said {said}, and it went to {node}. Look at the table, then delete the pod and try again",
    )
    return f"you said {said}, and there it went."


# --- 7: a policy of your own ------------------------------------------------------------------------------


@task
def modest_is_placed_and_miser_waits(lab: Lab) -> str:
    """`modest` is on the cheap node by the student's policy, whose reason against the others `miser` has."""
    pod, node = lab.bound("modest")
    wanted = the_nodes(lab)[1]
    require(node == wanted, f"pod modest is on {node}, which costs more than it wants to pay")
    scores = (decision_of(pod) or {}).get("scores", {})
    require(decision_of(pod), "pod modest wasn't placed by poller")
    miser = lab.pod("miser")
    require(not node_of(miser), f"pod miser is on {node_of(miser)}, which costs more than it wants to pay")
    told = [event["message"] for event in lab.events("FailedScheduling", "miser")]
    require(told, "poller hasn't tried pod miser yet")
    said = f"the event of pod miser says: {told[-1]}; not: too dear"
    require(any("too dear" in words for words in told), said)
    return f"pod modest is on {node}{', scored by ' + ', '.join(scores) if scores else ''}; pod miser waits."


# --- 8: the queue -----------------------------------------------------------------------------------------


@task
def the_follower_is_beside_the_leader(lab: Lab) -> str:
    """`follower` was tried in vain, and then placed beside a pod with the label app=leader."""
    follower = lab.pod("follower")
    require(lab.events("FailedScheduling", "follower"), "poller hasn't tried pod follower in vain yet")
    leaders = [node_of(pod) for pod in lab.pods("app=leader") if node_of(pod)]
    require(leaders, "no pod with the label app=leader has a node")
    require(node_of(follower), "pod follower has no node yet; does poller run?")
    require(node_of(follower) in leaders, f"pod follower is on {node_of(follower)}, without a leader")
    return f"pod follower was woken, and is on {node_of(follower)}, beside its leader."


@task
def the_gate_is_open(lab: Lab) -> str:
    """`gated` has no gate any more, and a node."""
    pod = lab.pod("gated")
    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
    require(not gates, f"pod gated still has the gate {', '.join(gates)}")
    require(node_of(pod), "the gate is open, but pod gated has no node yet: let poller place it")
    return f"the gate is open, and pod gated is on {node_of(pod)}."


# --- 9: Permit, and a gang --------------------------------------------------------------------------------


@task
def the_gang_is_placed(lab: Lab) -> str:
    """Three pods of the group `training` have nodes."""
    members = lab.pods("poller/group=training")
    require(len(members) >= 3, f"the group training has {len(members)} pods; it needs 3")
    waiting = [pod["metadata"]["name"] for pod in members if not node_of(pod)]
    require(not waiting, f"without a node: {', '.join(waiting)}")
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
    require(not node_of(pod), f"pod polite is on {node_of(pod)}: there was room")
    require(lab.events("FailedScheduling", "polite"), "poller hasn't tried pod polite yet")
    require(not victims_of(lab, "polite"), "pod polite has taken somebody's place")
    return "pod polite waits, and nobody had to go."


def victims_of(lab: Lab, pod: str) -> list[str]:
    """The pods that were evicted for a pod, according to their events."""
    return [
        event["involvedObject"]["name"]
        for event in lab.events("Preempted")
        if (event.get("related") or {}).get("name") == pod
    ]


# --- 11: deploy it ----------------------------------------------------------------------------------------

CLUSTER_ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/poller"


def may_bind(lab: Lab) -> bool:
    """Whether the ClusterRole `poller` lets it write bindings."""
    rules = (lab.get(CLUSTER_ROLE) or {}).get("rules") or ()
    return any("pods/binding" in rule["resources"] and "create" in rule["verbs"] for rule in rules)


@task
def sleep_runs_and_poller_has_its_rights(lab: Lab) -> str:
    """The rights are granted, and the pods of `sleep` run."""
    binding = CLUSTER_ROLE.replace("clusterroles", "clusterrolebindings")
    require(lab.get(CLUSTER_ROLE), "there is no ClusterRole poller")
    require(lab.get(binding), "there is no ClusterRoleBinding poller: who has the rules of the ClusterRole?")
    require(may_bind(lab), "the ClusterRole poller doesn't let it create pods/binding")
    pods = lab.pods("app=sleep")
    require(len(pods) == 3, f"the Deployment sleep has {len(pods)} pods, not 3")
    ready = sum(map(is_ready, pods))
    require(ready == 3, f"{ready} of 3 pods of sleep run")
    require(all(map(decision_of, pods)), "the pods of sleep weren't placed by poller")
    return "the Deployment sleep runs, and poller has placed it with the rights of its ServiceAccount."


@task
def nginx_is_placed_with_the_rights_back(lab: Lab) -> str:
    """poller may write bindings again, and `nginx` has a node."""
    require(may_bind(lab), "the ClusterRole poller doesn't let it create pods/binding")
    pod, node = lab.bound("nginx")
    require(decision_of(pod), "pod nginx wasn't placed by poller")
    return f"pod nginx is on {node}."
