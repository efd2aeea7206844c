"""Finds the cheapest numbers of nodes on which all pods fit, and how sure that is.

More nodes can mean fewer pods: spread counts a node on which nothing fits, and scores send pods elsewhere. So
a choice tells nothing of its parts. Proven is only what was tried, or has too little of what is requested.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from heapq import heappop, heappush
from math import inf

from lib.kube.objects import Pod
from lib.questions.sizing.trying import ORDERS, Counts, Tried, Trying

MOST_TRIES = 300
"""So many cheaper choices are tried; if there are more, the answer isn't proven to be the cheapest."""

MOST_CHOICES = 100_000
"""So many choices are looked at: most can't be enough, and aren't tried."""

MOST_FOR_ORDERS = 64
"""So many nodes are added at once where it depends on the order of arrival whether all fit."""


@dataclass
class Cheapest:
    """The answer. counts: how many nodes of each type; None if none were found: then `missing` says of pods
    why, on the nodes `tried`.

    is_proven: nothing cheaper is enough; or nothing at all, if there are no counts. cheaper: how many cheaper
    choices were tried. least: no choice can have a lower price. one_fewer: by type, which pod then has no
    node, and why.
    """

    counts: Counts | None
    missing: Mapping[str, str] = field(default_factory=dict)
    tried: Counts = ()
    price: Decimal = Decimal(0)
    least: Decimal = Decimal(0)
    cheaper: int = 0
    is_proven: bool = False
    one_fewer: dict[str, tuple[str, str]] = field(default_factory=dict)


class SizeSearch:
    """The search, for pods that wait. say: is told what is tried, for people that wait."""

    def __init__(self, tries: Trying, waiting: Sequence[Pod], say: Callable[[str], object]) -> None:
        self._tries, self._types, self._say = tries, tries.types, say
        self._nowhere, self._fitting = tries.alone(waiting)
        self._offers = [
            offer if fits else {} for offer, fits in zip(tries.offers(), self._fitting, strict=True)
        ]
        offered = {name for offer in self._offers for name in offer}
        self._asked = {name: more for name, more in tries.asked(waiting).items() if name in offered}
        self._none = (0,) * len(self._types)

    def run(self) -> Cheapest:
        """Search."""
        if self._nowhere:
            return Cheapest(None, self._nowhere, is_proven=True)
        grown = self._grow()
        if isinstance(grown, Tried):
            best, cheaper, is_proven = self._first()
            if best is None:
                missing = grown.missing or self._missing(grown.counts)
                return Cheapest(None, missing, grown.counts, is_proven=is_proven)
        else:
            best, cheaper, is_proven = self._cheapest(self._fewer(grown))
        found = Cheapest(best, price=self.price(best), cheaper=cheaper, is_proven=is_proven)
        found.least = found.price if is_proven else self._least(found.price)
        for i, number in enumerate(best):
            if number and (missing := self._missing(_with(best, i, -1))):
                found.one_fewer[self._types[i].name] = next(iter(missing.items()))
        return found

    def _cheapest(self, best: Counts) -> tuple[Counts, int, bool]:
        """The cheapest choice, from one that is enough; how many cheaper ones were tried, and whether these
        are all.
        """
        for i in range(len(self._types)):
            best = self._alone(i, best)
        while True:
            choices, are_all = self._cheaper(self.price(best))
            # Likely ones first: those that have most of what is asked.
            fitting = next(
                (counts for counts in sorted(choices, key=self._scarcity) if self._fits(counts)), None
            )
            if fitting is None:
                return best, len(choices), are_all
            best = self._fewer(fitting)

    def _first(self) -> tuple[Counts | None, int, bool]:
        """The first choice that is enough, the cheapest ones first; how many were tried before it, and
        whether these are all that there are.
        """
        todo, tried = [(Decimal(0), self._none)], 0
        for _ in range(MOST_CHOICES):
            if not todo:
                return None, tried, True
            price, counts = heappop(todo)
            last = max((i for i, number in enumerate(counts) if number), default=0)
            for i in range(last, len(counts)):
                if counts[i] < self._types[i].most:
                    heappush(todo, (price + self._types[i].price, _with(counts, i, 1)))
            if self._has_enough(counts):
                if tried == MOST_TRIES:
                    break
                if self._fits(counts):
                    return counts, tried, True
                tried += 1
        return None, tried, False

    def _missing(self, counts: Counts) -> dict[str, str]:
        """A pod that has no node then, and why; in the first order in which there is one."""
        tried = (self._tries.place(counts, order) for order in range(ORDERS))
        return next((trial.missing for trial in tried if trial.missing), {})

    def price(self, counts: Counts) -> Decimal:
        """The price of so many nodes."""
        return sum(
            (node_type.price * n for node_type, n in zip(self._types, counts, strict=True)), Decimal(0)
        )

    def _fits(self, counts: Counts) -> bool:
        named = [f"{n} {node_type.name}" for node_type, n in zip(self._types, counts, strict=True) if n]
        self._say(f"trying {' + '.join(named) or 'no more nodes'}")
        return self._tries.fits(counts)

    def _grow(self) -> Counts | Tried:
        """Add nodes until all fit, each time those that bring the most pods for their price.

        Or what came of placing the pods, if no more nodes help.
        """
        counts, seen = self._none, self._tries.place(self._none, all_of_them=True)
        more_for_orders = 1
        while not (seen.fits and self._fits(counts)):
            steps = []
            for i, node_type in enumerate(self._types):
                for more in (1, 2, 3) if self._fitting[i] else ():  # a pod may need several zones at once
                    if counts[i] + more > node_type.most:
                        break
                    self._say(f"trying {sum(counts) + more} nodes: {len(seen.missing)} pods are missing")
                    tried = self._tries.place(_with(counts, i, more), all_of_them=True)
                    placed = len(seen.missing) - len(tried.missing)
                    if placed > 0:
                        steps.append((placed / float(node_type.price * more), placed / more, i, more, tried))
                        break
            if not steps and seen.fits:  # it depends on the order whether they fit: have more
                room = [
                    i
                    for i, node_type in enumerate(self._types)
                    if counts[i] < node_type.most and self._fitting[i]
                ]
                if not room or more_for_orders > MOST_FOR_ORDERS:
                    return seen
                i = min(room, key=lambda i: self._types[i].price)
                counts = _with(counts, i, min(more_for_orders, self._types[i].most - counts[i]))
                more_for_orders *= 2
                seen = self._tries.place(counts, all_of_them=True)
                continue
            if not steps:  # say why: with some nodes of each type, if there are none yet
                some = tuple(
                    n or min(3, node_type.most) for node_type, n in zip(self._types, counts, strict=True)
                )
                return min(
                    self._tries.place(some, all_of_them=True), seen, key=lambda trial: len(trial.missing)
                )
            _, per_node, i, more, tried = max(steps, key=lambda step: step[:2])
            jump = int(len(tried.missing) / per_node / 2)  # half of what is likely to be needed
            jump = min(jump, self._types[i].most - counts[i] - more)
            seen = tried
            if jump > 0:
                further = self._tries.place(_with(counts, i, more + jump), all_of_them=True)
                seen = further if len(further.missing) < len(tried.missing) else tried
            counts = seen.counts
        return counts

    def _fewer(self, counts: Counts) -> Counts:
        """Leave out nodes as long as all fit, the dearest first; many at once, if possible."""
        by_price = sorted(range(len(counts)), key=lambda i: -self._types[i].price)
        going = True
        while going:
            going = False
            for i in by_price:
                step = counts[i]
                while step:
                    less = _with(counts, i, -step)
                    if less[i] >= 0 and self._has_enough(less) and self._fits(less):
                        counts, going = less, True
                    else:
                        step //= 2
        return counts

    def _alone(self, i: int, best: Counts) -> Counts:
        """Nodes of one type alone, if that is cheaper."""
        price, most = self._types[i].price, self._types[i].most
        number = int((self.price(best) - Decimal("1e-9")) / price)
        alone = _with(self._none, i, min(number, most))
        if self.price(alone) < self.price(best) and self._has_enough(alone) and self._fits(alone):
            return self._fewer(alone)
        return best

    def _cheaper(self, price: Decimal) -> tuple[list[Counts], bool]:
        """The choices below a price that have enough of what is requested, and whether these are all."""
        found: list[Counts] = []
        for looked_at, counts in enumerate(self._below(price, self._none, 0)):
            if looked_at == MOST_CHOICES or len(found) == MOST_TRIES:
                return found, False
            if self._has_enough(counts):
                found.append(counts)
        return found, True

    def _below(self, price: Decimal, counts: Counts, i: int) -> Iterator[Counts]:
        """All choices below a price which have these numbers of the types before i, the largest first.

        Once one has too little of what is requested, smaller ones are left out.
        """
        node_type, is_last = self._types[i], i == len(counts) - 1
        most = int((price - self.price(counts)) / node_type.price)
        for number in range(min(most, node_type.most), -1, -1):
            chosen = _with(counts, i, number)
            if is_last and self.price(chosen) < price:
                yield chosen
                if not self._has_enough(chosen):
                    return
            elif not is_last:
                yield from self._below(price, chosen, i + 1)

    def _has(self, counts: Counts, name: str) -> int:
        """How much of a resource the nodes together have."""
        return sum(n * max(0, offer.get(name, 0)) for offer, n in zip(self._offers, counts, strict=True))

    def _has_enough(self, counts: Counts) -> bool:
        """Whether the nodes together have what is asked; else it needn't be tried."""
        return all(self._has(counts, name) >= amount for name, amount in self._asked.items())

    def _scarcity(self, counts: Counts) -> float:
        """How much of the scarcest resource is asked: the higher, the less likely all fit."""
        return max((amount / self._has(counts, name) for name, amount in self._asked.items()), default=0.0)

    def _least(self, price: Decimal) -> Decimal:
        """A price that no choice can be below, as the nodes must have what is asked; `price` at most."""
        for looked_at, counts in enumerate(self._just_enough(0, price, self._asked)):
            if looked_at == MOST_CHOICES:
                return self._least_of_one_resource()
            price = min(price, self.price(counts))
        return price

    def _just_enough(self, i: int, left: Decimal, asked: Mapping[str, int]) -> Iterator[Counts]:
        """All numbers of the types from i on for so much money, with as few of the last as have enough."""
        node_type, offer = self._types[i], self._offers[i]
        most = min(int(left / node_type.price), node_type.most)
        needed = [
            -(-amount // has) if (has := offer.get(name, 0)) > 0 else inf for name, amount in asked.items()
        ]
        enough = max(needed, default=0)
        if i == len(self._types) - 1:
            if enough <= most:
                yield (int(enough),)
            return
        for number in range(int(min(most, enough)) + 1):
            missing = {
                name: more
                for name, amount in asked.items()
                if (more := amount - number * max(0, offer.get(name, 0))) > 0
            }
            for others in self._just_enough(i + 1, left - number * node_type.price, missing):
                yield (number, *others)

    def _least_of_one_resource(self) -> Decimal:
        """The same, of the resource that costs most by itself: rougher, and quick for any number of types."""
        least = Decimal(0)
        for name, amount in self._asked.items():
            per_price = [
                node_type.price / Decimal(has)
                for node_type, offer in zip(self._types, self._offers, strict=True)
                if (has := offer.get(name, 0)) > 0
            ]
            least = max(least, min(per_price, default=Decimal(0)) * Decimal(amount))
        return least


def _with(counts: Counts, index: int, more: int) -> Counts:
    return tuple(n + more * (i == index) for i, n in enumerate(counts))
