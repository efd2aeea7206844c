"""A pod that several terms keep off: `why` has an answer, and what it says would help does help."""

from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from all_cases import some
from hypothesis import HealthCheck, given, settings, strategies as st
from questions_harness import HOSTNAME, ZONE, Run
from test_verbs import a_node, a_pod, write

Json = dict[str, Any]

GPU = {"key": "gpu", "effect": "NoSchedule"}

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def expression(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": values} if values else {})}


def words_of(each: Json) -> str:
    """An expression as `why` writes it."""
    values = f" [{', '.join(each['values'])}]" if "values" in each else ""
    return f"{each['key']} {each['operator']}{values}"


# --- clusters -----------------------------------------------------------------------------------------------

labels = st.sampled_from([{}, {"app": "web"}, {"app": "db"}, {"app": "web", "tier": "front"}])
selectors = st.sampled_from(
    [
        {"matchLabels": {"app": "web"}},
        {"matchLabels": {"app": "db"}},
        {"matchExpressions": [expression("app", "In", "web", "db")]},
        {"matchExpressions": [expression("app", "Exists")]},
        {"matchLabels": {"app": "db"}, "matchExpressions": [expression("tier", "DoesNotExist")]},
        {},
    ]
)
terms = st.builds(
    lambda key, selector: {"topologyKey": key, "labelSelector": selector},
    st.sampled_from([ZONE, HOSTNAME, "rack"]),
    selectors,
)
constraints = st.builds(
    lambda term: {**term, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}, terms
).filter(lambda each: each["topologyKey"] != HOSTNAME)
expressions = st.sampled_from(
    [
        expression(ZONE, "In", "a"),
        expression(ZONE, "NotIn", "a", "b"),
        expression("disk", "In", "ssd"),
        expression("disk", "Exists"),
        expression("cores", "Gt", "4"),
    ]
)
node_terms = st.lists(expressions, min_size=1, max_size=3, unique_by=str).map(
    lambda some: {"matchExpressions": some}
)
affinities = st.fixed_dictionaries(
    {},
    optional={
        "podAffinity": st.lists(terms, min_size=1, max_size=3).map(lambda some: {REQUIRED: some}),
        "podAntiAffinity": st.lists(terms, min_size=1, max_size=3).map(lambda some: {REQUIRED: some}),
        "nodeAffinity": st.lists(node_terms, min_size=1, max_size=2).map(
            lambda some: {REQUIRED: {"nodeSelectorTerms": some}}
        ),
    },
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "affinity": affinities,
        "nodeSelector": st.dictionaries(st.sampled_from(["disk", "rack"]), st.just("no"), min_size=1),
        "topologySpreadConstraints": st.lists(
            constraints, min_size=1, max_size=2, unique_by=lambda each: each["topologyKey"]
        ),
    },
)


@st.composite
def clusters(draw: st.DrawFn) -> list[Json]:
    """Up to three nodes, some pods on them, and `p`, which has several terms of each kind."""
    objects = []
    for i in range(draw(st.integers(1, 3))):
        node = a_node(f"n{i}", "64", taints=draw(st.sampled_from([[], [GPU]])))
        node["metadata"]["labels"] |= {ZONE: draw(st.sampled_from("ab"))}
        node["metadata"]["labels"] |= draw(st.sampled_from([{}, {"disk": "hdd"}, {"rack": "1"}]))
        objects.append(node)
    on = st.sampled_from([each["metadata"]["name"] for each in objects])
    pods = range(draw(st.integers(0, 4)))
    objects += [a_pod(f"o{i}", "1", draw(on), {"labels": draw(labels)}) for i in pods]
    return [*objects, a_pod("p", "1", metadata={"labels": draw(labels)}, **draw(specs))]


# --- what `why` says, done to the objects -----------------------------------------------------------------


def term_words(name: str, term: Json) -> str:
    selector = term["labelSelector"]
    parts = [f"{key}={value}" for key, value in selector.get("matchLabels", {}).items()]
    parts += [words_of(each) for each in selector.get("matchExpressions", ())]
    to = f" to {' and '.join(parts)}" if parts else ""
    return f"the required {name}{to} ({term['topologyKey']})"


def changed(objects: list[Json], words: str) -> list[Json]:
    """The objects with one change, done as its words say it."""
    objects = deepcopy(objects)
    spec = objects[-1]["spec"]
    if words.startswith("if "):
        gone = words.removeprefix("if ").removesuffix(" left").split(", ")
        left = [each for each in objects if f"default/{each['metadata']['name']}" not in gone]
        assert len(left) == len(objects) - len(gone), words
        return left
    if words.startswith("with one more node like "):
        (like,) = [each for each in objects if each["metadata"]["name"] == words.split()[-1]]
        new = deepcopy(like)
        new["metadata"] |= {"name": "new", "uid": "new"}
        new["metadata"]["labels"] |= {HOSTNAME: "new"}
        return [new, *objects]
    if words.startswith("with the label "):
        labels, name = words.removeprefix("with the label ").split(" on ")
        (node,) = [each for each in objects if each["metadata"]["name"] == name]
        node["metadata"]["labels"] |= dict(each.split("=") for each in labels.split(","))
        return objects
    before = deepcopy(spec)
    if words == "with a toleration for gpu:NoSchedule":
        spec["tolerations"] = [GPU]
    elif words.startswith("without nodeSelector "):
        key, value = words.split()[-1].split("=")
        assert spec["nodeSelector"].pop(key) == value
    elif words == "without its required node affinity":
        del spec["affinity"]["nodeAffinity"]
    elif words.endswith(" in its node affinity"):
        for term in spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]:
            term["matchExpressions"] = [
                each
                for each in term["matchExpressions"]
                if words != f"without {words_of(each)} in its node affinity"
            ]
    elif words.startswith("without the required "):
        which, name = ("podAffinity", "pod affinity")
        if "anti-affinity" in words:
            which, name = ("podAntiAffinity", "anti-affinity")
        affinity = spec["affinity"][which]
        affinity[REQUIRED] = [
            each for each in affinity[REQUIRED] if words != f"without {term_words(name, each)}"
        ]
    else:
        (constraint,) = [
            each
            for each in spec["topologySpreadConstraints"]
            if words.endswith(f" for {each['topologyKey']}")
        ]
        if words.startswith("with maxSkew "):
            constraint["maxSkew"] = int(words.split()[2])
        else:
            assert words.startswith("with whenUnsatisfiable: ScheduleAnyway ")
            constraint["whenUnsatisfiable"] = "ScheduleAnyway"
    assert spec != before, words
    return objects


@given(clusters())
@settings(max_examples=some(60), suppress_health_check=list(HealthCheck))
def test_why_has_an_answer_and_each_change_that_it_names_helps(poller: Run, objects: list[Json]) -> None:
    with TemporaryDirectory() as folder:
        done = poller("why", "p", "--from", write(Path(folder) / "cluster.json", *objects), "-o", "json")
        answer = done.json
        for each in answer["suggestions"]:
            there = objects
            for words in each["changes"]:
                there = changed(there, words)
            file = write(Path(folder) / "changed.json", *there)
            again = poller("why", "p", "--from", file, "-o", "json").json
            assert again["answer"] == "yes", (each["changes"], again["message"])
