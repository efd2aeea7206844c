"""The nodes that a question finds are those on which kube-scheduler 1.36 found that the pod fits."""

from objects import read
from questions_harness import decider_of
from test_oracle import CASES

from lib.kube.objects import Namespace, Node, Pod
from lib.questions.rejections import Details
from lib.questions.snapshot import Snapshot


def test_the_nodes_that_fit_are_those_of_kube_scheduler() -> None:
    seen = 0
    for case in CASES:
        snapshot = Snapshot()
        snapshot.of(Node).extend(read(Node, each) for each in case["nodes"])
        snapshot.of(Pod).extend(read(Pod, each) for each in case["bound"])
        for name, labels in case["namespaces"].items():
            snapshot.of(Namespace).append(read(Namespace, {"metadata": {"name": name, "labels": labels}}))
        decider, pod = decider_of(snapshot), read(Pod, case["pod"])
        fitting = decider.fitting(pod)
        assert sorted(fitting) == sorted(case["answer"].get("feasible", ())), case["seed"]
        decision = decider.ask(pod)
        assert set(decision.rejected) == set(decider.cache.nodes) - set(fitting)
        details = Details(decision, decider.cache)
        for name, rejection in decision.rejected.items():  # each has its values, whatever the reason
            assert details.of(name, rejection), (case["seed"], rejection)
            seen += 1
    assert seen > 388
