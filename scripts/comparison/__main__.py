"""`scripts/compare`: random clusters are decided on by kube-scheduler's own plugins, and by poller.

It needs kube-scheduler's framework and plugins as a program that answers JSON lines. The environment variable
KUBE_SCHEDULER_ASK names it.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

from .cases import PLUGINS, Cases
from .differences import Difference, differences
from .intended import reason_for
from .kube_scheduler import Json, KubeScheduler
from .sequences import sequence

SHOWN = 5
"""So many differences are printed of each kind of asks."""

KINDS = (*PLUGINS, "profile", "sequences", *(f"{each}/hints" for each in PLUGINS))


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/compare", description=__doc__)
    parser.add_argument(
        "--of",
        action="append",
        choices=KINDS,
        metavar="KIND",
        help=f"one of {', '.join(KINDS)}; may be repeated",
    )
    parser.add_argument(
        "--cases", type=int, default=100, metavar="N", help="of each kind (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the cases (default %(default)s)")
    parser.add_argument("--whole", action="store_true", help="print whole cases, as JSON")
    return parser.parse_args()


def found_in(
    kind: str, seed: int, cases: int, kube_scheduler: KubeScheduler
) -> Iterator[tuple[Json, Json, list[Difference]]]:
    """Each ask of a kind, with kube-scheduler's answer, and where poller's differs."""
    if kind == "sequences":
        yield from islice(sequence(seed, kube_scheduler), cases)
        return
    for ask, answer in kube_scheduler.answers(islice(asks(kind, seed), cases)):
        found = [] if unanswered(answer) else differences(ask, answer)
        if found:  # its informers may not have had all objects yet
            answer = kube_scheduler.answer(ask)
            found = [] if unanswered(answer) else differences(ask, answer)
        yield ask, answer, found


def asks(kind: str, seed: int) -> Iterator[Json]:
    """Asks of a kind, without end."""
    name, _, what = kind.partition("/")
    cases = Cases(PLUGINS if name == "profile" else [name], seed)
    if name == "profile":
        return cases.of_profile()
    return cases.of_hints(name) if what else cases.of_plugin(name)


def unanswered(answer: Json) -> str:
    """Why kube-scheduler didn't answer; "" if it did."""
    return str(answer.get("panic") or answer.get("err") or "")


def main(chosen: argparse.Namespace) -> int:
    failed = False
    with KubeScheduler() as kube_scheduler:
        for kind in chosen.of or KINDS:
            began, counts = time.monotonic(), Counter[str]()
            for ask, answer, found in found_in(kind, chosen.seed, chosen.cases, kube_scheduler):
                verdict = "unanswered" if unanswered(answer) else "equal"
                if found:
                    verdict = "meant" if reason_for(ask) else "different"
                counts[verdict] += 1
                if verdict == "different" and counts[verdict] <= SHOWN:
                    show(kind, ask, found, answer if chosen.whole else None)
            failed = failed or bool(counts["different"])
            said = ", ".join(f"{number:,} {verdict}" for verdict, number in sorted(counts.items()))
            print(f"{kind}: {said or 'no cases'}, in {time.monotonic() - began:.0f} s", flush=True)
    return 1 if failed else 0


def show(kind: str, ask: Json, found: Iterable[Difference], answer: Json | None) -> None:
    """Print what differs."""
    print(f"{kind} {ask['id']}:")
    for each in islice(found, SHOWN):
        print(f"  {each.what}\n    kube-scheduler: {each.kube_scheduler}\n    poller: {each.poller}")
    if answer is not None:
        print(json.dumps({"ask": ask, "answer": answer}))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(options()))
