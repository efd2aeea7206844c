"""An extender that accepts each node, or lies."""

import json
from random import Random
from typing import Any

from .server import Answer, Asked


def answer_of_extender(asked: Asked, lies: Random | None) -> Answer:
    """What it answers. lies: the numbers by which an untrue answer is picked."""
    try:
        nodes: list[str] = json.loads(asked.body)["NodeNames"] or []
    except ValueError:  # it has a pod as the API server sent it, and that was garbled
        return Answer(400, b"unreadable", {"Content-Type": "text/plain"})
    said: Any
    if asked.target.endswith("/filter"):
        said = {"nodenames": nodes, "failedNodes": {}, "error": ""}
        if lies:
            said = lies.choice(
                (
                    {"nodenames": [*nodes, "nowhere"]},
                    {"nodenames": []},
                    {"nodenames": nodes[:1] * 3, "failedNodes": dict.fromkeys(nodes, "no")},
                    {"nodenames": None, "nodes": {"items": [{"metadata": {"name": "nowhere"}}]}},
                    {"error": "made to fail"},
                    [],
                    None,
                )
            )
    else:
        said = [{"host": node, "score": 5} for node in nodes]
        if lies:
            worst: list[Any] = [{"host": "nowhere", "score": 10}, {"host": nodes[0], "score": -(10**18)}]
            said = lies.choice((worst, worst * 2, [{"host": nodes[0], "score": 10**30}], {}, None, [None]))
    return Answer(200, json.dumps(said).encode(), {"Content-Type": "application/json"})
