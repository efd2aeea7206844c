"""The checks of lesson 24: what a student has found in kube-scheduler's source, and foretold."""

import re
from typing import NamedTuple

from scripts.learning.lab import Json, Lab, condition, require

FILE = "answers.txt"


class Place(NamedTuple):
    """A function in pkg/scheduler of Kubernetes 1.36."""

    file: str
    function: str


PLACES = {
    1: Place("schedule_one.go", "numFeasibleNodesToFind"),
    2: Place("framework/runtime/framework.go", "RunFilterPluginsWithNominatedPods"),
    3: Place("framework/runtime/framework.go", "RunScorePlugins"),
    4: Place("framework/types.go", "Error"),
    5: Place("schedule_one.go", "handleBindingCycleError"),
    6: Place("backend/queue/backoff_queue.go", "calculateBackoffDuration"),
    7: Place("backend/queue/scheduling_queue.go", "isPodWorthRequeuing"),
    8: Place("backend/queue/scheduling_queue.go", "flushUnschedulablePodsLeftover"),
    9: Place("framework/plugins/defaultpreemption/default_preemption.go", "SelectVictimsOnNode"),
    10: Place("framework/preemption/preemption.go", "pickOneNodeForPreemption"),
}
"""Where the answers to the questions of the page are, by the question's number."""

_ANSWER = re.compile(r"(?P<number>\d+)\s*[.):]?\s+(?P<file>\S+\.go)[\s:,]+(?P<function>.+)")
_RECEIVER = re.compile(r"^(func\s+)?(\([^)]*\)\.?\s*)?(\w+\.)*|\(.*\)?$")


def ten_places_were_found(lab: Lab) -> str:
    """.lab/answers.txt names the file and the function where each of ten questions is answered."""
    file = lab.folder / FILE
    require(file.is_file(), f"there is no .lab/{FILE}")
    found: dict[int, Place] = {}
    for line in file.read_text(errors="replace").splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        answer = _ANSWER.fullmatch(line.strip())
        require(answer, f"this line isn't a number, a file and a function: {line.strip()[:80]}")
        assert answer
        number, function = int(answer["number"]), _RECEIVER.sub("", answer["function"].strip())
        require(number in PLACES, f"there is no question {number}")
        require(number not in found, f"there are two answers to question {number}")
        require(
            function.isidentifier(), f"answer {number} names no function, or several: {answer['function']}"
        )
        found[number] = Place(answer["file"], function)
    missing = [str(number) for number in PLACES if number not in found]
    require(not missing, f"without an answer: {', '.join(missing)}")
    elsewhere = [str(n) for n, place in found.items() if not _is_file(place.file, PLACES[n].file)]
    others = [str(n) for n, place in found.items() if place.function != PLACES[n].function]
    require(not elsewhere, f"in another file: {', '.join(elsewhere)}")
    require(not others, f"the file is right, but it is another function: {', '.join(others)}")
    return "all ten are where you say."


def _is_file(named: str, right: str) -> bool:
    """Whether a path, from wherever it begins, names a file of pkg/scheduler."""
    path = (
        "/" + named.partition("pkg/scheduler/")[2] if "pkg/scheduler/" in named else "/" + named.lstrip("./")
    )
    return f"/{right}".endswith(path)


def the_message_was_foretold(lab: Lab) -> str:
    """The annotation of `foretold` says, from before, what the first sentence of its event is."""
    pod = lab.pod("foretold")
    said = pod["metadata"].get("annotations", {}).get("lab/prediction")
    require(said, "pod foretold has no annotation lab/prediction: what will the event say?")
    told = [each["message"] for each in lab.events("FailedScheduling", "foretold") if _is_about(each, pod)]
    require(told, "pod foretold has no event FailedScheduling yet: has a scheduler tried it?")
    for part, what in (
        ("unschedulable", "no node is cordoned"),
        ("taint", "no node has a taint"),
        ("Insufficient", "the pod doesn't ask for more than a node has"),
    ):
        require(part in told[0], f"the message was to have three reasons, but {what}: {told[0]}")
    right, yours = (_first_sentence(text) for text in (told[0], str(said)))
    require(
        yours == right,
        f"you said: {yours}. It is: {right}. Why? Then delete the pod, and try again",
    )
    scheduled = next(each for each in pod["status"]["conditions"] if each["type"] == "PodScheduled")
    notes = [each for each in pod["metadata"].get("managedFields") or () if not each.get("subresource")]
    require(
        condition(pod, "PodScheduled") == "False"
        and not any(each["time"] > scheduled["lastTransitionTime"] for each in notes),
        "pod foretold was changed after it was tried, so nobody knows what you said before",
    )
    real = any(
        each["manager"].startswith("kube-scheduler") for each in pod["metadata"].get("managedFields") or ()
    )
    return f"{'kube-scheduler' if real else 'poller'} said what you foretold."


def _first_sentence(text: str) -> str:
    return " ".join(text.partition(". ")[0].rstrip(". ").split())


def _is_about(event: Json, pod: Json) -> bool:
    return bool(event["involvedObject"].get("uid") == pod["metadata"]["uid"])


CHECKS = (ten_places_were_found, the_message_was_foretold)
