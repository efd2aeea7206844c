"""The nodes that a question finds are those on which kube-scheduler 1.36 found that the pod fits."""

from objects import read
from questions_harness import decider_of
from test_oracle import cases

from lib.kube.objects import Namespace, Node, Object, Pod
from lib.questions.explaining import Explaining
from lib.questions.snapshot import Snapshot
from lib.questions.snapshot_cache import cache_of


def test_the_nodes_that_fit_are_those_of_kube_scheduler() -> None:
    decider = decider_of(Snapshot())
    explained = 0
    for case in cases():
        namespaces = [{"metadata": {"name": name, "labels": of}} for name, of in case["namespaces"].items()]
        objects: dict[type[Object], list[Object]] = {
            kind: [read(kind, each) for each in bodies]
            for kind, bodies in ((Node, case["nodes"]), (Pod, case["bound"]), (Namespace, namespaces))
        }
        decider.cache = cache_of(Snapshot(objects))
        pod = read(Pod, case["pod"])
        fitting = decider.fitting(pod)
        assert sorted(fitting) == sorted(case["answer"].get("feasible", ())), case["seed"]
        decision = decider.ask(pod)
        assert set(decision.rejected) == set(decider.cache.nodes) - set(fitting)
        details = Explaining(decision, decider.profile_of(pod), decider.cache).details()
        for name, rejection in decision.rejected.items():  # each has its values, whatever the reason
            assert details[name], (case["seed"], rejection)
            explained += 1
    assert explained > 388
