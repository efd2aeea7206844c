"""Why pods of a group wait: all of them are placed, or enough of them, or none."""

from typing import Any

import pytest
from objects import read
from questions_harness import a_node, a_pod, decider_of, snapshot_of

from lib.kube.objects import Object, Pod, PodGroup
from lib.questions.why import Why, why


def member(name: str, cpu: str = "1", size: int = 3, **more: Any) -> Pod:
    group = {"labels": {"poller/group": "g"}, "annotations": {"poller/group-size": str(size)}}
    owner = {"ownerReferences": [{"kind": "Job", "name": "j", "uid": "j", "controller": True}]}
    return a_pod(name, cpu, metadata={**group, **owner, **more.pop("metadata", {})}, **more)


def ask(pod: Pod, *others: Object) -> Why:
    snapshot = snapshot_of(*others, pod)
    decider = decider_of(snapshot)
    found = why(pod, snapshot, decider)
    assert not decider.cache.counts()["assumed_pods"], "a question keeps nothing"
    return found


def test_a_pod_waits_for_the_others_of_its_group_to_be_created() -> None:
    found = ask(member("a"), member("b"), a_node("n1"))
    assert not found.yes
    assert found.decision.message == "waiting for 1 more of 3"
    assert (found.group, found.waits_for) == ("g", None)


def test_a_pod_has_a_node_if_all_of_its_group_have_one() -> None:
    found = ask(member("a"), member("b"), member("c"), a_node("n1"))
    assert (found.yes, found.decision.node_name) == (True, "n1")
    bound = ask(member("a"), member("b", on="n1"), member("c", on="n1"), a_node("n1"))
    assert (bound.yes, bound.decision.node_name) == (True, "n1")


def test_a_pod_waits_for_another_of_its_group_that_has_no_node() -> None:
    found = ask(member("a"), member("b"), member("c", "4"), a_node("n1"), a_node("n2", cpu="3"))
    assert not found.yes
    assert found.decision.message.startswith("group g needs default/c: 0/2 nodes are available")
    assert found.waits_for
    assert str(found.waits_for.pod) == "default/c"
    # Where the others are assumed to be is random; n1 is free only if both are on n2.
    assert {each.plugin for each in found.waits_for.decision.rejected.values()} == {"NodeResourcesFit"}


def test_what_is_suggested_helps_the_whole_group() -> None:
    """Two more pods of 2 cpu are to be placed where there is room for one: one smaller pod isn't enough."""
    nodes = [a_node("n1", cpu="3")]
    found = ask(member("a", "2"), member("b", "2"), member("c", "2"), *nodes)
    explained = found.waits_for or found
    assert [each.words for each in explained.suggestions] == ["at cpu 1 in place of 2"]
    assert explained.details["n1"] == ["needs cpu 2, 1 of 3 free: default/a has 2"]
    alone = [a_pod("other", "1", on="n1")]
    found = ask(member("a", "2", 2), member("b", "2", 2), *alone, a_node("n1", cpu="4"))
    assert "if default/other left" in [each.words for each in (found.waits_for or found).suggestions]


def test_pods_that_no_scheduler_tries_do_not_count() -> None:
    gated = member("c", schedulingGates=[{"name": "example.com/x"}])
    found = ask(member("a"), member("b"), gated, a_node("n1"))
    assert found.decision.message == "waiting for 1 more of 3"
    assert ask(gated, member("a"), member("b"), a_node("n1")).gated


@pytest.mark.parametrize("label", ["poller/group", "scheduling.x-k8s.io/pod-group"])
def test_without_a_size_each_pod_is_placed_alone(label: str) -> None:
    pod = a_pod("a", "1", labels={label: "g"})
    found = ask(pod, a_node("n1"))
    assert found.yes == (label != "poller/group")  # a PodGroup that isn't there says nothing


def elastic(name: str, cpu: str = "1", **more: Any) -> Pod:
    return a_pod(name, cpu, labels={"scheduling.x-k8s.io/pod-group": "g"}, **more)


def needs(min_member: int) -> Object:
    made: Object = read(
        PodGroup, {"metadata": {"namespace": "default", "name": "g"}, "spec": {"minMember": min_member}}
    )
    return made


def test_a_pod_has_a_node_if_enough_of_its_group_have_one() -> None:
    pods = [elastic(name) for name in "abc"]
    node = a_node("n1", cpu="2")
    found = [ask(pod, *(each for each in pods if each is not pod), node, needs(2)) for pod in pods]
    assert [each.yes for each in found] == [True, True, False]
    assert (found[0].group, found[0].rule) == ("g", "when 2 of its pods have room")
    assert (found[2].waits_for, found[2].decision.rejecting_plugin) == (None, "")
    assert "at cpu 0 in place of 1" not in [each.words for each in found[2].suggestions]


def test_a_pod_waits_for_enough_of_its_group_to_have_a_node() -> None:
    pods = [elastic(name, "2") for name in "abc"]
    found = ask(pods[0], *pods[1:], a_node("n1", cpu="3"), needs(2))
    assert not found.yes
    assert found.decision.message.startswith("group g needs 2 pods, and fewer fit: default/b: 0/1 nodes")
    assert found.waits_for
    assert str(found.waits_for.pod) == "default/b"
    helps = [each.words for each in found.waits_for.suggestions]
    assert helps == ["at cpu 1 in place of 2", "with one more node like n1"]


GANG = {"schedulingGroup": {"podGroupName": "g"}}


def gang(**policy: Any) -> Object:
    names = {"namespace": "default", "name": "g"}
    made: Object = read(PodGroup, {"metadata": names, "spec": {"schedulingPolicy": policy}})
    return made


def test_a_pod_waits_for_the_pod_group_of_kubernetes_that_it_names() -> None:
    pods, node = [a_pod(name, "1", **GANG) for name in "abc"], a_node("n1", cpu="2")
    other = read(PodGroup, {"metadata": {"namespace": "default", "name": "other"}, "spec": {}})
    assert ask(pods[0], node).yes, "whether there is a PodGroup isn't known"
    missing = ask(pods[0], node, other)
    assert (missing.yes, missing.waits_for_group, missing.rule) == (False, True, "")
    assert missing.decision.message == "waiting for PodGroup g to be created"
    found = {n: ask(pods[0], *pods[1:], node, gang(gang={"minCount": n})) for n in (2, 3, 4)}
    assert {n: each.yes for n, each in found.items()} == {2: True, 3: False, 4: False}
    assert found[3].decision.message.startswith("group g needs 3 pods, and fewer fit: default/c: 0/1 nodes")
    assert found[4].decision.message == "waiting for 1 more of 4"
    alone = [ask(pod, *(each for each in pods if each is not pod), node, gang(basic={})) for pod in pods]
    assert [(each.yes, each.rule) for each in alone] == [(yes, "pod by pod") for yes in (True, True, False)]
