"""Terms of node selectors, and why a node doesn't match one: for people who ask `why`."""

from lib.kube.label_syntax import problems_of_term
from lib.kube.matcher import integer
from lib.kube.objects import NodeSelectorTerm
from lib.kube.selectors import matches, matches_term
from lib.scheduling.node_info import NodeInfo
from lib.scheduling.text import listed, requirement_text

COMPARING = ("Gt", "Lt")
"""The operators that compare whole numbers."""


def label_said(node: NodeInfo, key: str) -> str:
    """A node's value of a label."""
    return f"the node has {key}={node.labels[key]}" if key in node.labels else "the node has no such label"


def term_text(term: NodeSelectorTerm) -> str:
    """A term of a node selector."""
    parts = [*term.match_expressions, *term.match_fields]
    return listed(map(requirement_text, parts)) if parts else "(an empty term)"


def _no_number(value: str | None, operator: str) -> str:
    compares = operator in COMPARING and value is not None
    return ", which is no whole number" if compares and integer(value or "") is None else ""


def why_no_match(term: NodeSelectorTerm, node: NodeInfo) -> str:
    """The part of a term that a node doesn't match."""
    if not term.match_expressions and not term.match_fields:
        return "an empty term matches no node"
    if no_numbers := [
        expression.values[0]
        for expression in term.match_expressions
        if expression.operator in COMPARING
        and len(expression.values) == 1
        and integer(expression.values[0]) is None
    ]:
        return f"{listed(no_numbers)} is no whole number, and so the term matches no node"
    if wrong := problems_of_term(term):
        return f"an invalid term matches no node: {listed(wrong)}"
    assert not matches_term(term, node.node)
    missing = [
        label_said(node, expression.key) + _no_number(node.labels.get(expression.key), expression.operator)
        for expression in term.match_expressions
        if not matches(expression, node.labels)
    ]
    fields = {"metadata.name": node.name}
    missing += [
        f"the node is {node.name}" for expression in term.match_fields if not matches(expression, fields)
    ]
    return listed(missing)
