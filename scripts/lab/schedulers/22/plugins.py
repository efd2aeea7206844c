"""Plugins: each is a class with methods for extension points."""

import cluster

ALLOW, WAIT = ("allow", ""), ("wait", "")


def number_of(name):
    """The digit that a name ends in; None if it ends in something else."""
    return int(name[-1]) if name[-1] in "0123456789" else None


def scaled(scores):
    """The scores, so that the highest is 100."""
    most = max(scores.values())
    return {name: 100 * score // most if most else 0 for name, score in scores.items()}


class NodeUnschedulable:
    """No pod goes to a node that is cordoned."""

    def filter(self, state, pod, node):
        return "node(s) were unschedulable" if node["spec"].get("unschedulable") else None


class NodeResourcesFit:
    """The node has enough cpu and memory for the pod beside those that are there, but for some, `without`."""

    def filter(self, state, pod, node):
        there = [
            each for each in cluster.pods_on(node) if each["metadata"]["uid"] not in state.get("without", ())
        ]
        return None if cluster.have_room([*there, pod], node) else "Insufficient resources"


class NodeNumber:
    """A pod prefers a node whose name ends in the same digit, and waits for so many seconds."""

    weight = 1

    def pre_score(self, state, pod, feasible):
        state["number"] = number_of(pod["metadata"]["name"])
        return state["number"] is not None

    def score(self, state, pod, node):
        return 10 if number_of(node["metadata"]["name"]) == state["number"] else 0

    def normalize(self, scores):
        return scaled(scores)

    def permit(self, pod, node, waited):
        number = number_of(node["metadata"]["name"]) if node else 0
        return ALLOW if waited >= (number or 0) else WAIT


class FewestPods:
    """The fewer pods a node has, the better."""

    weight = 2

    def score(self, state, pod, node):
        return len(cluster.pods_on(node))

    def normalize(self, scores):
        return {name: 100 - score for name, score in scaled(scores).items()}


class Approval:
    """A pod with the label lab-approval waits until an annotation says yes or no, for 10 s at most."""

    longest = 10

    def permit(self, pod, node, waited):
        if "lab-approval" not in (pod["metadata"].get("labels") or {}):
            return ALLOW
        said = (pod["metadata"].get("annotations") or {}).get("lab-approved")
        if said == "no":
            return "reject", "it isn't approved"
        if said != "yes" and waited >= self.longest:
            return "reject", f"nobody has approved it within {self.longest} s"
        return ALLOW if said == "yes" else WAIT
