"""Selectors, compiled: how long a match takes depends on the labels, not on the size of the selector."""

import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Set
from itertools import repeat
from typing import Generic, TypeVar

from lib.kube.objects import LabelSelector, Requirement

Clue = tuple[str, str | None] | None
"""A label that a matcher needs; without a value: any value does. None: it needs no label."""

T = TypeVar("T")

_Values = str | frozenset[str]
"""One value of a label, or several. A set for each of thousands of expressions would take long to make."""

ANY = frozenset({"any value"})
"""Any value, if it is this object: no label has a value with a space."""

NO_LABEL = "", ""

_NONE: dict[str, _Values] = {}
"""What most matchers forbid."""

LOWEST, HIGHEST = -(2**63), 2**63 - 1
"""The range of an integer in a label."""


class Matcher:
    """Expressions that all must hold (apimachinery/pkg/labels/selector.go, Requirement.Matches).

    Expressions about one key become one set of values. `NotIn` matches also if the label is missing. An
    unknown operator matches nothing. Matchers are equal if they are made of the same conditions.

    labels: must be the same. expressions: must hold, too.
    """

    __slots__ = ("_between", "_conditions", "_forbidden", "_hash", "_never", "_required", "unless")

    def __init__(self, labels: Mapping[str, str], expressions: Iterable[Requirement] = ()) -> None:
        self._never = False
        self._required: dict[str, _Values] = dict(labels)
        self._forbidden: dict[str, _Values] = _NONE
        self._between: dict[str, tuple[int, int]] = {}  # neither of these, but between them
        many: dict[str, set[str]] = {}
        for expression in expressions:
            self._add(expression, many)
        for key, values in many.items():
            if self._forbidden[key] is not ANY:
                self._forbidden[key] = frozenset(values)
        conditions = frozenset(self._required.items()), frozenset(self._forbidden.items())
        self._conditions = None if self._never else (*conditions, frozenset(self._between.items()))
        self._hash = hash(self._conditions)
        self.unless = self._only_condition()

    def _only_condition(self) -> tuple[str, str] | None:
        """The label that keeps this from matching where one of `clues` is. None: it isn't as simple."""
        if self._never or self._between or len(self._required) > 1 or len(self._forbidden) > 1:
            return None
        for key, value in self._forbidden.items():
            return (key, value) if isinstance(value, str) else None
        return NO_LABEL

    def _add(self, one: Requirement, many: dict[str, set[str]]) -> None:
        """Add an expression. many: by key, the forbidden values, where there are several."""
        key, values = one.key, one.values
        if one.operator == "In":
            known = self._required.get(key, ANY)
            common = frozenset(values) if known is ANY else _set(known).intersection(values)
            self._required[key] = next(iter(common)) if len(common) == 1 else common
        elif one.operator in ("NotIn", "DoesNotExist"):
            if self._forbidden is _NONE:
                self._forbidden = {}
            if one.operator == "DoesNotExist":
                self._forbidden[key] = ANY
            elif key not in self._forbidden and len(values) == 1:
                self._forbidden[key] = values[0]
            elif (known := self._forbidden.setdefault(key, frozenset())) is not ANY:
                many.setdefault(key, {*_set(known)}).update(values)
        elif one.operator == "Exists":
            self._required.setdefault(key, ANY)
        elif one.operator in ("Gt", "Lt"):
            bound = integer(values[0]) if len(values) == 1 else None
            low, high = self._between.get(key, (LOWEST - 1, HIGHEST + 1))
            if bound is None:
                self._never = True
            elif one.operator == "Gt":
                low = max(low, bound)
            else:
                high = min(high, bound)
            self._between[key] = low, high
            self._required.setdefault(key, ANY)
        else:
            self._never = True

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy all expressions."""
        if self._never or len(self._required) > len(labels):
            return False
        for key, values in self._required.items():
            value = labels.get(key)
            if value is None or not (value == values or values is ANY or _is_among(value, values)):
                return False
        if self._forbidden and self._refuses(labels):
            return False
        return not self._between or self._is_between(labels)

    def _refuses(self, labels: Mapping[str, str]) -> bool:
        forbidden = self._forbidden
        for key in forbidden if len(forbidden) < len(labels) else labels:
            if key in forbidden and key in labels:
                value, values = labels[key], forbidden[key]
                if value == values or values is ANY or _is_among(value, values):
                    return True
        return False

    def _is_between(self, labels: Mapping[str, str]) -> bool:
        for key, (low, high) in self._between.items():
            number = integer(labels[key])
            if number is None or not low < number < high:
                return False
        return True

    @property
    def is_empty(self) -> bool:
        """Whether it has no expressions, and so matches everything."""
        return not (self._never or self._required or self._forbidden)

    @property
    def clues(self) -> Iterable[Clue]:
        """Labels of which one is there wherever this matches."""
        fewest: tuple[str, Set[str]] | None = None
        for key, values in self._required.items():
            if isinstance(values, str):
                return ((key, values),)
            if values is not ANY and (fewest is None or len(values) < len(fewest[1])):
                fewest = key, values
        if fewest:
            return [(fewest[0], value) for value in fewest[1]]
        return ((next(iter(self._required)), None),) if self._required else (None,)

    @property
    def keys(self) -> Iterable[str]:
        """The keys of the labels that it looks at, each once."""
        return {**self._required, **self._forbidden} if self._forbidden else self._required

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Matcher) and self._hash == other._hash and self._conditions == other._conditions
        )


def _set(values: "_Values") -> frozenset[str]:
    return frozenset((values,)) if isinstance(values, str) else values


def _is_among(value: str, values: "_Values") -> bool:
    return not isinstance(values, str) and value in values


EVERYTHING = Matcher({})
"""The matcher of an empty selector."""


def matcher_of(selector: LabelSelector | None) -> Matcher | None:
    """A label selector, compiled. None matches nothing (LabelSelectorAsSelector)."""
    if selector is None:
        return None
    if not (selector.match_labels or selector.match_expressions):
        return EVERYTHING
    return Matcher(selector.match_labels, selector.match_expressions)


def integer(text: str) -> int | None:
    """A 64-bit integer; None if it isn't one: then neither Gt nor Lt matches."""
    number = int(text) if re.fullmatch("[+-]?[0-9]{1,63}", text) else None  # a label has no more letters
    return number if number is not None and LOWEST <= number <= HIGHEST else None


_Indexed = tuple[tuple[str, str] | None, Matcher, T]
"""A matcher, after its `unless`, and the value."""


class Index(Generic[T]):
    """Values by the labels that their matchers need: for some labels, few matchers are looked at."""

    def __init__(self) -> None:
        self._by_clue: dict[Clue, dict[Hashable, _Indexed[T]]] = {}

    @property
    def clues(self) -> Collection[Clue]:
        """Labels of which one is there wherever a matcher matches."""
        return self._by_clue.keys()

    def add(self, matcher: Matcher, key: Hashable, value: T) -> None:
        """Add a value. key: names it."""
        for clue in matcher.clues:
            self._by_clue.setdefault(clue, {})[key] = matcher.unless, matcher, value

    def remove(self, matcher: Matcher, key: Hashable) -> None:
        """Remove the value that was added with this key."""
        for clue in matcher.clues:
            del self._by_clue[clue][key]
            if not self._by_clue[clue]:
                del self._by_clue[clue]

    def matching(self, labels: Mapping[str, str]) -> list[T]:
        """The values whose matchers match these labels, each once."""
        label = labels.get
        return [  # without a call for each, as there may be thousands
            value
            for candidates in self._candidates(labels)
            for unless, matcher, value in candidates.values()
            if (matcher.matches(labels) if unless is None else label(unless[0]) != unless[1])
        ]

    def count(self, labels: Mapping[str, str]) -> int:
        """How many matchers are looked at for these labels."""
        return sum(map(len, self._candidates(labels)))

    def _candidates(self, labels: Mapping[str, str]) -> list[dict[Hashable, _Indexed[T]]]:
        known = self._by_clue
        if not known:
            return []
        clues: list[Clue] = [None, *labels.items(), *zip(labels, repeat(None), strict=False)]
        return [known[clue] for clue in clues if clue in known]
