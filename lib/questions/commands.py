"""What each verb does: reads, asks, prints; returns whether the answer is yes."""

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from lib.questions.asking import Common, Output, now
from lib.questions.events import read_events
from lib.questions.page import Page, print_json
from lib.questions.show import show_why
from lib.questions.snapshot import look_up_controllers
from lib.questions.why import find_pod, why


def ask_why(
    common: Common,
    pod: Annotated[str, typer.Argument(metavar="POD", help="A pod, waiting or not: NAME or NAMESPACE/NAME.")],
) -> bool:
    """Why does a pod wait, and what would help? Or why is it where it is?

    Exit 0: it has a node, or would get one. 3: it fits nowhere.
    """
    with common.api() as api:
        snapshot = common.read(api)
        asked = find_pod(snapshot, pod, common.namespace)
        if api:
            look_up_controllers(api, snapshot, [asked])
            read_events(api, snapshot, asked)
    common.what_if.apply(snapshot)
    answer = why(asked, snapshot, common.decider(snapshot))
    common.tell_notes(snapshot)
    if common.output == Output.JSON:
        print_json(answer.as_json())
    else:
        show_why(answer, Page(wide=common.output == Output.WIDE), now())
    return answer.yes


ALL: Mapping[str, Callable[..., bool]] = {"why": ask_why}
"""By the name of the verb."""
