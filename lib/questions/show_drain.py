"""Prints, for people, what a drain of nodes would do."""

from collections.abc import Sequence

from lib.questions.drain import Drain, Moved
from lib.questions.printing import Printer
from lib.questions.show import in_spite_of
from lib.questions.show_why import show_nowhere
from lib.questions.verdict import Verdict
from lib.scheduling.text import count, listed, names, verb
from lib.scheduling.workloads import controller_of


def show_drain(drain: Drain, out: Printer) -> None:
    """Whom it evicts, where they go, and where it sticks."""
    out.heading(_headline(drain))
    if drain.held:
        out.line(_stuck(drain))
    for leaving in drain.lingering:
        out.line(f"kubectl drain waits until {leaving.pod} is gone: {leaving.held_by}")
    moved = sorted(drain.moved, key=lambda move: bool(move.to_node) and not move.budgets)
    rows = [(f"wave {move.wave}" if move.wave else "", f"{move.pod} {_way(move)}") for move in moved]
    shown = out.first(rows)
    out.pairs(shown, numbers=True)
    out.more(len(rows) - len(shown), "more pod", f": {_rest(moved[len(shown) :])}")
    if drain.stay:
        stays = verb(len(drain.stay), "stays", "stay")
        out.line(f"{count(len(drain.stay), 'pod')} of DaemonSets, or static, {stays}.")
    if drain.options:
        out.line(f"kubectl stops before the first eviction without {' '.join(drain.options)}:", gap=True)
        out.pairs(((option, out.names(pods, 3)) for option, pods in drain.options.items()), numbers=True)
    for why in drain.why:
        out.heading(f"why {why.pod} would have no node", gap=True)
        show_nowhere(why, out)


def _headline(drain: Drain) -> str:
    nodes, many = names(drain.nodes), sum(not move.displaced_by for move in drain.moved)
    if not many:
        return f"{nodes}: there are no pods to evict"
    found = []
    if drain.held:
        found.append(f"stuck at pod {drain.held[0].pod} after {count(drain.waves, 'wave')}")
    if drain.homeless:
        unknown = drain.verdict == Verdict.UNKNOWN
        found.append(f"{len(drain.homeless):,} {'may' if unknown else 'would'} have no node")
    finished = sum(move.pod.has_finished for move in drain.moved)
    gone = sum(not move.displaced_by for move in drain.bare)
    if not found:
        works = f"it works in {count(drain.waves, 'wave')}"
        found.append(
            works
            if gone + finished == many
            else f"all {'others ' * bool(gone or finished)}would have a node; {works}"
        )
    for_good = f"{gone:,} of them {verb(gone, 'is', 'are')} gone for good, " if gone else ""
    ended = f"{finished:,} of them {verb(finished, 'has', 'have')} finished, " if finished else ""
    return f"{nodes}: {count(many, 'pod')} to evict, {ended}{for_good}{listed(found)}"


def _rest(moved: Sequence[Moved]) -> str:
    """How many of the pods that aren't shown would have a node, and how many wouldn't."""
    there = sum(bool(move.to_node) for move in moved)
    nowhere = sum(move.again is not None and not move.to_node for move in moved)
    gone = len(moved) - there - nowhere
    parts = [
        (there, "would have a node"),
        (nowhere, "wouldn't"),
        (gone, verb(gone, "isn't made again", "aren't made again")),
    ]
    return listed(f"{many:,} {what}" for many, what in parts if many)


def _stuck(drain: Drain) -> str:
    held = drain.held[0]
    why = held.stuck or "; ".join(
        f"budget {name} allows no disruption of it{f': {why.text}' if why.text else ''}"
        for name, why in held.why_held.items()
    )
    lost = [str(move.pod) for move in drain.homeless if move.wave]
    because = f", and {names(lost, 3)} would have no node by then" if lost else ""
    return f"kubectl drain would wait for ever: {why}{because}."


def _way(moved: Moved) -> str:
    again = moved.again
    to = f" to {again.node_name or 'nowhere'}" if again else ""
    parts = [f"from {moved.from_node}{to}"]
    if moved.displaced_by:
        parts[0] = f"leaves {moved.from_node} for {moved.displaced_by}{to and f',{to}'}"
    if again and again.victims:
        parts.append(f"in the place of {names([*map(str, again.victims)])}{in_spite_of(again.unprotected)}")
    if moved.budgets:
        parts.append(f"budget {names([*moved.why_held])} allows no disruption")
    if moved.unready:
        parts.append("it isn't ready now, and is taken to become so")
    if moved.held_by and not moved.pod.metadata.deletion_timestamp:
        parts.append(moved.held_by)
    if moved.pod.has_finished:
        parts.append("it has finished")
    elif not again and (owner := controller_of(moved.pod)):
        parts.append(f"{owner.kind} {owner.name} is gone, and nothing makes it again")
    elif not again:
        parts.append("nothing makes it again")
    return "; ".join(parts)
