"""The functions that expressions may call, with the types of their parameters and results.

A table has a function by its form: with its parameters and its result, as the library has them. A member is
called as TARGET.FUNCTION(...): its target is the first parameter. ~A is any type, and a dot in the name of a
function has a backslash. {int|uint} stands for a form with each: equal ones stand for the same one. Those
without a result are declared by extensions of the library.

Source: github.com/google/cel-go, common/stdlib, ext and cel/library.go; k8s.io/apiserver/pkg/cel/library, as
environment/base.go chooses them
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any, NamedTuple

from lib.scheduling.devices.cel.functions import FUNCTIONS
from lib.scheduling.devices.cel.kubernetes import KUBERNETES

NUMBERS = ("int", "uint", "double")
ALIKE = [(type_, type_) for type_ in ("bool", "duration", "timestamp", "string", "bytes")]
ORDERED_PAIRS = "{" + "|".join(",".join(pair) for pair in [*product(NUMBERS, NUMBERS), *ALIKE]) + "}"
"""What can be compared. The library itself doesn't compare numbers of several types."""

DECLARED = (
    rf"_\<_({ORDERED_PAIRS}) bool",
    rf"_\<=_({ORDERED_PAIRS}) bool",
    rf"_\>_({ORDERED_PAIRS}) bool",
    rf"_\>=_({ORDERED_PAIRS}) bool",
    r"cel\.@mapInsert(map<~A,~B>,~A,~B)",
    r"cel\.@mapInsert(map<~A,~B>,map<~A,~B>)",
    "optional_type<~A>.or(optional_type<~A>)",
    "optional_type<~A>.orValue(~A)",
    "kubernetes.authorization.Authorizer.path(string) kubernetes.authorization.PathCheck",
    "kubernetes.authorization.PathCheck.check(string) kubernetes.authorization.Decision",
    "kubernetes.authorization.Decision.allowed() bool",
)
"""Forms of what is computed in run.py and operators.py. Nothing is of the types of the last ones."""


class Overload(NamedTuple):
    """One form of a function. result: "" if the library declares it. parameters: the names of their types.

    compute: None if the function isn't in a table.
    """

    signature: str
    result: str
    parameters: Sequence[str]
    is_member: bool
    compute: Callable[..., Any] | None


PARTS = re.compile(r"(?:(?P<target>.+)(?<!\\)\.)?(?P<name>(?:[\w@=]|\\.)+)\((?P<arguments>.*)\)")


@cache
def declarations() -> Mapping[str, Sequence[Overload]]:
    """The functions, by name."""
    found: dict[str, list[Overload]] = defaultdict(list)
    for form, compute in {**dict.fromkeys(DECLARED), **FUNCTIONS, **KUBERNETES}.items():
        for line in _forms(form):
            signature, _, result = line.partition(" ")
            parts = PARTS.fullmatch(_without_parameters(signature))
            assert parts
            parameters = [
                parameter for parameter in (parts["target"], *parts["arguments"].split(",")) if parameter
            ]
            overload = Overload(signature, result, parameters, bool(parts["target"]), compute)
            found[parts["name"].replace("\\", "")].append(overload)
    return found


def _forms(form: str) -> Iterator[str]:
    """A form with each of its choices."""
    choice = re.search(r"\{(.*?)\}", form)
    if not choice:
        yield form
        return
    for chosen in choice[1].split("|"):
        yield from _forms(form.replace(choice[0], chosen))


def _without_parameters(signature: str) -> str:
    """A signature with types like `list`, for `list<int>`."""
    before = ""
    while signature != before:
        before, signature = signature, re.sub(r"(?<!\\)<[^<>]*>", "", signature)
    return signature
