"""Label and field selectors, as list and watch take them in the query.

The grammar and its errors are those of k8s.io/apimachinery/pkg/labels; a field selector knows =, == and !=
only.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from .errors import bad_request
from .resources import BY_PATH, EVENTS, NAMESPACES, NODES, PODS, Resource

Object = dict[str, Any]
Matches = Callable[[Object], bool]

# The fields that each resource can be selected by, beside its name and namespace
# (the AddFieldLabelConversionFunc of each API group, e.g. pkg/apis/core/v1/conversion.go).
FIELDS: Mapping[Resource, Mapping[str, str]] = {
    PODS: {
        "spec.nodeName": "",
        "spec.restartPolicy": "",
        "spec.schedulerName": "",
        "spec.serviceAccountName": "",
        "spec.hostNetwork": "false",
        "status.phase": "",
        "status.podIP": "",
        "status.nominatedNodeName": "",
    },
    NODES: {"spec.unschedulable": "false"},
    NAMESPACES: {"status.phase": ""},
    EVENTS: {
        **{
            f"involvedObject.{field}": ""
            for field in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
        },
        "reason": "",
        "reportingComponent": "",
        "source": "",
        "type": "",
    },
    BY_PATH["v1", "secrets"]: {"type": ""},
    BY_PATH["resource.k8s.io/v1", "resourceslices"]: {"spec.nodeName": "", "spec.driver": ""},
}

_TOKENS = re.compile(r"\s*(?:(!=|==|=|>|<|!|\(|\)|,)|([^\s=!,()<>]+))")


def label_selector(text: str) -> Matches:
    """`a=b,c!=d,e in (f,g),h notin (i),j,!k,l>5`, all of which must hold."""
    parser = _Parser(text)
    requirements = parser.requirements()
    return lambda content: all(holds(content["metadata"].get("labels") or {}) for holds in requirements)


def matches_selector(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """A LabelSelector object. None selects nothing, an empty one everything."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for expression in selector.get("matchExpressions") or ():
        key, values = expression["key"], expression.get("values") or ()
        holds = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }[expression["operator"]]
        if not holds:
            return False
    return True


def show_selector(selector: Object | None) -> str:
    """A LabelSelector object as one line of text, as tables and scales show it."""
    if not selector:
        return "<none>"
    shown = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression["key"], ",".join(expression.get("values") or ())
        shown.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }[expression["operator"]]
        )
    return ",".join(shown)


def field_selector(resource: Resource, text: str) -> Matches:
    known = {"metadata.name": "", **FIELDS.get(resource, {})}
    if resource.namespaced:
        known["metadata.namespace"] = ""
    wanted: list[tuple[tuple[str, ...], str, bool, str]] = []
    for term in filter(None, text.split(",")):
        found = re.fullmatch(r"(.*?)(!=|==|=)(.*)", term)
        if not found:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = found.groups()
        if field not in known:
            raise bad_request(f"field label not supported: {field}")
        path = ("source", "component") if field == "source" else tuple(field.split("."))
        wanted.append((path, known[field], operator != "!=", value))
    return lambda content: all(
        (_field(content, path, default) == value) is equal for path, default, equal, value in wanted
    )


def _field(content: Object, path: tuple[str, ...], default: str) -> str:
    value: Any = content
    for part in path:
        value = value.get(part)
        if value is None:
            return default
    return str(value).lower() if isinstance(value, bool) else value or default


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = [match.group().strip() for match in _TOKENS.finditer(text)]
        self._at = 0

    def requirements(self) -> list[Callable[[Mapping[str, str]], bool]]:
        found = []
        while self._peek():
            found.append(self._requirement())
            if self._peek():
                self._expect(",", "',' or end of string")
        return found

    def _requirement(self) -> Callable[[Mapping[str, str]], bool]:
        if self._peek() == "!":
            self._next()
            absent = self._identifier()
            return lambda labels: absent not in labels
        key = self._identifier()
        operator = self._peek()
        if operator in ("", ","):
            return lambda labels: key in labels
        self._next()
        if operator in ("=", "=="):
            value = self._value()
            return lambda labels: labels.get(key) == value
        if operator == "!=":
            value = self._value()
            return lambda labels: labels.get(key) != value
        if operator in (">", "<"):
            number, sign = int(self._identifier()), 1 if operator == ">" else -1
            return lambda labels: (
                _number(labels.get(key)) is not None and sign * int(labels[key]) > sign * number
            )
        if operator == "in":
            values = self._values()
            return lambda labels: labels.get(key) in values
        if operator == "notin":
            values = self._values()
            return lambda labels: labels.get(key) not in values
        raise _unparsed(operator, "in, notin, =, ==, !=, gt, lt")

    def _values(self) -> set[str]:
        self._expect("(", "'('")
        values = {self._value()}
        while self._peek() == ",":
            self._next()
            values.add(self._value())
        self._expect(")", "',' or ')'")
        return values

    def _value(self) -> str:
        """A value may be empty: `app=` selects the empty label."""
        return "" if self._peek() in ("", ",", ")") else self._identifier()

    def _identifier(self) -> str:
        token = self._next()
        if not re.match(r"[^=!,()<>]", token):
            raise _unparsed(token, "identifier")
        return token

    def _expect(self, wanted: str, said: str) -> None:
        token = self._next()
        if token != wanted:
            raise _unparsed(token, said)

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"-?\d+", text) else None


def _unparsed(token: str, expected: str) -> Exception:
    return bad_request(f"unable to parse requirement: found '{token}', expected: {expected}")
