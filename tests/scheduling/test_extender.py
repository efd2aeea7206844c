"""What extenders are asked, and what comes of their answers. test_extenders.py has real ones, over HTTP."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from objects import node, pod

from lib.kube.objects import Node, Pod
from lib.scheduling.cache import Cache
from lib.scheduling.extender import Extender
from lib.scheduling.extenders import Extenders
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.preemption.victims import Victims
from lib.scheduling.status import ExtenderError, Status, unresolvable, unschedulable

URL = "http://music/v1"
LEFT_OUT = unresolvable(f"node(s) were left out by extender {URL}")
NODES = [NodeInfo(node(name)) for name in ("n1", "n2")]


class Answering:
    """A connection to an extender that gives set answers, by verb, and notes what it was sent."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.sent = answers, list[tuple[str, Any]]()

    def send(self, url: str, body: bytes) -> bytes:
        self.sent.append((url, json.loads(body)))
        answer = self.answers[url.rpartition("/")[2]]
        return answer if isinstance(answer, bytes) else json.dumps(answer).encode()

    def whole_pod(self, pod: Pod) -> msgspec.Raw:
        return msgspec.Raw(json.dumps(pod.metadata.name).encode())

    def whole_nodes(self, nodes: Sequence[Node]) -> list[msgspec.Raw]:
        return [msgspec.Raw(json.dumps(each.metadata.name).encode()) for each in nodes]


def one(wire: Answering, *warnings: list[str], **told: Any) -> Extenders:
    """A single extender, with each verb that it has an answer for. warnings: a list that gets them."""
    verbs: dict[str, Any] = {f"{verb}_verb": verb for verb in wire.answers}
    return Extenders([Extender(URL, wire, **verbs, **told)], *[heard.append for heard in warnings])


def passing(*names: str) -> dict[str, Any]:
    return {"Nodes": {"items": [{"metadata": {"name": name}} for name in names]}}


# --- filter -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("knows_nodes", "answer", "rejected"),
    [
        (False, passing("n1", "n2"), {}),
        (False, passing("n2"), {"n1": LEFT_OUT}),
        (False, {}, {"n1": LEFT_OUT, "n2": LEFT_OUT}),
        (False, passing("n2") | {"FailedNodes": {"n1": "no music"}}, {"n1": unschedulable("no music")}),
        (
            False,
            passing("n2") | {"FailedAndUnresolvableNodes": {"n1": "no stage"}, "FailedNodes": {"n1": "-"}},
            {"n1": unresolvable("no stage")},
        ),
        (False, passing("n1", "n2") | {"FailedNodes": {"n1": "no music"}}, {}),  # what passes has passed
        (True, {"NodeNames": ["n2"]}, {"n1": LEFT_OUT}),
        (True, {"nodenames": ["n2"], "failednodes": {"n1": "no music"}}, {"n1": unschedulable("no music")}),
        (True, {"NodeNames": []}, {"n1": LEFT_OUT, "n2": LEFT_OUT}),
        (True, passing("n2"), {"n1": LEFT_OUT}),  # it may answer with nodes all the same
        (False, passing("n2") | {"NodeNames": ["n1"]}, {"n1": LEFT_OUT}),  # it wasn't sent names
    ],
)
def test_an_extender_says_which_nodes_pass(
    knows_nodes: bool, answer: Any, rejected: dict[str, Status]
) -> None:
    extenders = one(Answering(filter=answer), node_cache_capable=knows_nodes)
    assert extenders.filter(pod(), NODES) == {name: (URL, status) for name, status in rejected.items()}


@pytest.mark.parametrize(
    ("knows_nodes", "expected"),
    [
        (False, {"Pod": "web", "Nodes": {"items": ["n1", "n2"], "metadata": {}}, "NodeNames": None}),
        (True, {"Pod": "web", "Nodes": None, "NodeNames": ["n1", "n2"]}),
    ],
)
def test_only_names_are_sent_to_one_that_knows_the_nodes(knows_nodes: bool, expected: Any) -> None:
    wire = Answering(filter=passing("n1", "n2"), prioritize=[])
    extenders = one(wire, node_cache_capable=knows_nodes)
    extenders.filter(pod(), NODES)
    extenders.prioritize(pod(), NODES)
    assert wire.sent == [(f"{URL}/filter", expected), (f"{URL}/prioritize", expected)]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"Error": "no mood"}, "says: no mood"),
        (passing("n1", "n9", "n8"), "lets nodes pass it wasn't sent: n8, n9"),
        (["what?"], "answered something else: "),
        (b"<html>", "answered something else: "),
    ],
)
def test_one_that_fails_is_skipped_only_if_it_is_ignorable(answer: Any, words: str) -> None:
    warnings: list[str] = []
    with pytest.raises(ExtenderError, match=f"extender {URL}/filter {words}"):
        one(Answering(filter=answer), warnings).filter(pod(), NODES)
    assert warnings == []
    assert one(Answering(filter=answer), warnings, ignorable=True).filter(pod(), NODES) == {}
    assert len(warnings) == 1
    assert warnings[0].endswith("; going on without it")


def test_each_extender_is_sent_what_the_ones_before_let_pass() -> None:
    """The ignorable ones come last. When no node is left, the others aren't asked."""
    ignorable = Answering(filter={})
    first, second = Answering(filter={"NodeNames": ["n2"]}), Answering(filter={"NodeNames": []})
    extenders = Extenders(
        Extender(URL, wire, filter_verb="filter", node_cache_capable=True, ignorable=wire is ignorable)
        for wire in (ignorable, first, second)
    )
    assert extenders.filter(pod(), NODES).keys() == {"n1", "n2"}
    assert [body["NodeNames"] for wire in (first, second) for _, body in wire.sent] == [["n1", "n2"], ["n2"]]
    assert ignorable.sent == []


@pytest.mark.parametrize(
    ("managed", "spec", "asked"),
    [
        ([], {}, True),
        (["example.com/gpu"], {}, False),
        (["example.com/gpu"], {"containers": [{"resources": {"requests": {"example.com/gpu": "1"}}}]}, True),
        (["example.com/gpu"], {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}, False),
        (
            ["cpu", "example.com/gpu"],
            {"initContainers": [{"resources": {"requests": {"example.com/gpu": "1"}}}]},
            True,
        ),
    ],
)
def test_an_extender_is_asked_about_pods_that_request_what_it_manages(
    managed: list[str], spec: dict[str, Any], asked: bool
) -> None:
    wire = Answering(filter=passing("n1"), prioritize=[], preempt={}, bind={})
    extenders, asking = one(wire, managed_resources=frozenset(managed)), pod(**spec)
    extenders.filter(asking, NODES)
    extenders.prioritize(asking, NODES)
    extenders.process_preemption(asking, CANDIDATES, CLUSTER)
    assert extenders.bind(asking, "n1") is asked
    assert len(wire.sent) == (4 if asked else 0)


def test_an_extender_is_asked_only_for_its_verbs() -> None:
    extenders = Extenders([Extender(URL, Answering())])
    assert extenders.filter(pod(), NODES) == {}
    assert extenders.prioritize(pod(), NODES) == {}
    assert extenders.process_preemption(pod(), CANDIDATES, CLUSTER) == CANDIDATES
    assert not extenders.bind(pod(), "n1")


# --- prioritize -------------------------------------------------------------------------------------------


def test_scores_up_to_ten_become_scores_up_to_a_hundred_times_the_weight() -> None:
    answer = [{"Host": "n1", "Score": 1}, {"host": "n2", "score": 10}]
    for weight, expected in ((1, {"n1": 10, "n2": 100}), (5, {"n1": 50, "n2": 500})):
        extenders = one(Answering(prioritize=answer), weight=weight)
        assert extenders.prioritize(pod(), NODES) == {URL: expected}


def test_no_scores_come_of_one_that_fails_to_score() -> None:
    warnings: list[str] = []
    assert one(Answering(prioritize={"n1": 1}), warnings).prioritize(pod(), NODES) == {}
    assert len(warnings) == 1
    assert warnings[0].endswith("; going on without its scores")


# --- preemption -------------------------------------------------------------------------------------------

OLD = [pod(f"old{i}", nodeName=f"n{i}") for i in (1, 2)]
CLUSTER = Cache([node("n1"), node("n2")], OLD)
CANDIDATES = {f"n{i}": Victims(f"n{i}", (OLD[i - 1],), violations=i) for i in (1, 2)}


def choosing(**uids: str) -> dict[str, Any]:
    """By node, the pod to be preempted."""
    chosen = {name: {"Pods": [{"UID": uid}], "NumPDBViolations": 3} for name, uid in uids.items()}
    return {"NodeNameToMetaVictims": chosen}


@pytest.mark.parametrize(
    ("knows_nodes", "expected"),
    [
        (
            False,
            {
                "NodeNameToMetaVictims": None,
                "NodeNameToVictims": {
                    "n1": {"Pods": ["old1"], "NumPDBViolations": 1},
                    "n2": {"Pods": ["old2"], "NumPDBViolations": 2},
                },
            },
        ),
        (
            True,
            {
                "NodeNameToVictims": None,
                "NodeNameToMetaVictims": {
                    "n1": {"Pods": [{"UID": "uid-of-old1"}], "NumPDBViolations": 1},
                    "n2": {"Pods": [{"UID": "uid-of-old2"}], "NumPDBViolations": 2},
                },
            },
        ),
    ],
)
def test_an_extender_chooses_among_the_candidates(knows_nodes: bool, expected: Any) -> None:
    wire = Answering(preempt=choosing(n2="uid-of-old2"))
    extenders = one(wire, node_cache_capable=knows_nodes)
    chosen = extenders.process_preemption(pod(), CANDIDATES, CLUSTER)
    assert chosen == {"n2": Victims("n2", (OLD[1],), violations=3)}
    assert wire.sent == [(f"{URL}/preempt", {"Pod": "web", **expected})]


NOBODY = {"NodeNameToMetaVictims": {"n1": {"Pods": None}, "n2": {"pods": [{"uid": "uid-of-old2"}]}}}


@pytest.mark.parametrize(
    ("answer", "words", "served"),
    [
        (choosing(n1="uid-of-old2"), "pod 'uid-of-old2' on node n1, where we may evict no such pod", ()),
        (choosing(n9="uid-of-old1"), "pod 'uid-of-old1' on node n9, where we may evict no such pod", ()),
        (choosing(n1="uid-of-old1"), "pod 'uid-of-old1' on node n1, where we may evict", ("team-a",)),
        (NOBODY, "names no victim on node n1", ()),
        ({"NodeNameToMetaVictims": {"n1": 5}}, "answered something else: ", ()),
    ],
)
def test_only_pods_that_poller_may_evict_can_be_chosen(
    answer: Any, words: str, served: Sequence[str]
) -> None:
    cluster = Cache([node("n1"), node("n2")], OLD, served=served)
    with pytest.raises(ExtenderError, match=words):
        one(Answering(preempt=answer)).process_preemption(pod(), CANDIDATES, cluster)


def test_an_ignorable_extender_may_name_a_node_without_a_victim() -> None:
    """That node is a candidate no more, as in kube-scheduler."""
    chosen = one(Answering(preempt=NOBODY), ignorable=True).process_preemption(pod(), CANDIDATES, CLUSTER)
    assert chosen.keys() == {"n2"}


def test_candidates_stay_if_an_ignorable_extender_fails() -> None:
    warnings: list[str] = []
    extenders = one(Answering(preempt=[]), warnings, ignorable=True)
    assert extenders.process_preemption(pod(), CANDIDATES, CLUSTER) == CANDIDATES
    assert len(warnings) == 1


@pytest.mark.parametrize(("answer", "left"), [(choosing(n1="uid-of-old1"), ["n1"]), ({}, [])])
def test_the_next_extender_chooses_among_what_is_left(answer: Any, left: list[str]) -> None:
    """It isn't asked if there is nothing left."""
    first, second = Answering(preempt=answer), Answering(preempt=answer)
    extenders = Extenders(Extender(URL, wire, preempt_verb="preempt") for wire in (first, second))
    assert extenders.process_preemption(pod(), CANDIDATES, CLUSTER).keys() == {*left}
    assert [[*body["NodeNameToVictims"]] for _, body in second.sent] == ([left] if left else [])


# --- bind -------------------------------------------------------------------------------------------------


def test_an_extender_is_told_what_to_bind_where() -> None:
    wire = Answering(bind={})
    assert one(wire).bind(pod(), "n1")
    told = {"PodName": "web", "PodNamespace": "default", "PodUID": "uid-of-web", "Node": "n1"}
    assert wire.sent == [(f"{URL}/bind", told)]


def test_a_pod_that_an_ignorable_extender_fails_to_bind_is_bound_by_the_next() -> None:
    refusing, binding = Answering(bind={"Error": "no mood"}), Answering(bind={})
    with pytest.raises(ExtenderError, match=f"extender {URL}/bind says: no mood"):
        one(refusing).bind(pod(), "n1")
    assert not one(refusing, [], ignorable=True).bind(pod(), "n1")
    both = [Extender(URL, wire, bind_verb="bind", ignorable=True) for wire in (refusing, binding)]
    assert Extenders(both).bind(pod(), "n1")
    assert len(binding.sent) == 1
