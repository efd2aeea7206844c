"""What labels and names look like, and what is wrong with a selector that can match none.

An API server refuses such selectors today. An older one may have stored them, and a file may hold them.

Source: k8s.io/apimachinery, pkg/util/validation/validation.go; pkg/labels/selector.go, NewRequirement
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from lib.kube.matcher import integer
from lib.kube.objects import LabelSelector, NodeSelectorTerm, Requirement

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
VALUE = re.compile("(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
NAME = re.compile("([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
KEY = re.compile(f"({SUBDOMAIN.pattern}/)?{NAME.pattern}")

LONGEST = 63
"""A label's value, and the part of its key after the slash, have no more bytes."""

A_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and "
    "must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
A_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
A_NAME = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def problems_of(text: str, pattern: re.Pattern[str], most: int, what: str) -> list[str]:
    """What is wrong with a text: it has more than `most` bytes, or isn't `what` the pattern says."""
    found = [f"must be no more than {most} bytes"] if len(text.encode()) > most else []
    return found if pattern.fullmatch(text) else [*found, what]


def problems_of_key(text: str) -> list[str]:
    """What is wrong with the key of a label (IsQualifiedName)."""
    parts = text.split("/")
    found: list[str] = []
    if len(parts) > 2:
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {A_NAME} {optional}"]
    if len(parts) == 2:
        if not parts[0]:
            found.append("prefix part must be non-empty")
        else:
            found += [
                f"prefix part {problem}" for problem in problems_of(parts[0], SUBDOMAIN, 253, A_SUBDOMAIN)
            ]
    name = parts[-1]
    if not name:
        found.append("name part must be non-empty")
    elif len(name) > LONGEST:
        found.append("name part must be no more than 63 bytes")
    return found if NAME.fullmatch(name) else [*found, f"name part {A_NAME}"]


def problem_of_selector(selector: LabelSelector | None) -> str:
    """What is wrong with the first invalid part of a label selector; "" if all is well."""
    if selector is None:
        return ""
    labels = (Requirement(key, "In", (value,)) for key, value in selector.match_labels.items())
    for expression in (*labels, *selector.match_expressions):
        if _is_usual(expression):
            continue
        if expression.operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            return f'"{expression.operator}" is not a valid label selector operator'
        if found := [*_problems_of(expression, "")]:
            return together(found)
    return ""


def problems_of_term(term: NodeSelectorTerm, place: str = "") -> list[str]:
    """What is wrong with a term of a node selector. place: where it is."""
    place = f"{place}." if place else ""
    found: list[str] = []
    for i, expression in enumerate(term.match_expressions):
        if _is_usual(expression):
            continue
        found += _problems_of(expression, f"{place}matchExpressions[{i}].")
    for i, expression in enumerate(term.match_fields):
        if expression.operator not in ("In", "NotIn"):
            found.append(f'{place}matchFields[{i}].operator: Unsupported value: "{expression.operator}"')
        elif len(expression.values) != 1:
            found.append(f"{place}matchFields[{i}].values: Invalid value: must have one element")
    return found


def together(found: list[str]) -> str:
    """Several errors as Go writes them (errors.NewAggregate)."""
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]"


@lru_cache(maxsize=1024)  # few keys are used, and those that are asked about are short
def _is_key(text: str) -> bool:
    return KEY.fullmatch(text) is not None


def _is_usual(one: Requirement) -> bool:
    """Whether all is well with an expression that names values: so it is nearly always."""
    if one.operator not in ("In", "NotIn") or not one.values or len(one.key) > LONGEST:
        return False
    if not _is_key(one.key):
        return False
    matches = VALUE.fullmatch  # loops in C, as a pod may have thousands of values
    return all(map(matches, one.values)) and max(map(len, one.values)) <= LONGEST


def _problems_of(one: Requirement, place: str) -> Iterator[str]:
    values = one.values
    if wrong := problems_of_key(one.key):
        yield f'{place}key: Invalid value: "{one.key}": {"; ".join(wrong)}'
    match one.operator:
        case "In" | "NotIn":
            if not values:
                yield f"{place}values: Invalid value: for 'in', 'notin' operators, values set can't be empty"
        case "Exists" | "DoesNotExist":
            if values:
                yield f"{place}values: Invalid value: values set must be empty for exists and does not exist"
        case "Gt" | "Lt":
            if len(values) != 1:
                yield f"{place}values: Invalid value: for 'Gt', 'Lt' operators, exactly one value is required"
            for i, value in enumerate(values):
                if integer(value) is None:
                    why = "for 'Gt', 'Lt' operators, the value must be an integer"
                    yield f'{place}values[{i}]: Invalid value: "{value}": {why}'
        case _:
            yield f'{place}operator: Unsupported value: "{one.operator}"'
    for i, value in enumerate(values):
        if wrong := problems_of(value, VALUE, LONGEST, A_VALUE):
            yield f'{place}values[{i}][{one.key}]: Invalid value: "{value}": {"; ".join(wrong)}'
