"""The printed table: a row for each measurement, a column for each contestant."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from statistics import median

from msgspec import structs
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scripts.benchmark.contestants import BASELINES, CONTESTANTS, Contestant
from scripts.benchmark.figures import Figure, Results
from scripts.benchmark.ticks import KINDS, tick_of

WIDTH = 160
"""The table's width in a file."""

BUSY = 0.5
"""A load average that changes the figures."""

Row = dict[str, Figure]
"""The figures of one measurement, by contestant."""


def show(results: Results, console: Console) -> None:
    rows = _rows(results.figures)
    columns = [each for each in CONTESTANTS if any(each.key in row for row in rows.values())]
    server = f"{results.server or 'no'} API server"
    table = Table(title=f"{server}; {results.machine}", title_justify="left")
    for heading in ("", "nodes", "unit"):
        table.add_column(heading, justify="right" if heading == "nodes" else "left")
    for contestant in columns:
        table.add_column(contestant.title, justify="right")
    problems: list[str] = []
    part = ""
    for (measure, nodes), row in rows.items():
        first = next(iter(row.values()))
        if part and first.part != part:
            table.add_section()
        part = first.part
        cells = [_cell(row, each, problems) for each in columns]
        table.add_row(measure, f"{nodes:,}", _unit(row), *cells)
    console.print(table)
    for note in chain(_ratios(rows, columns), _notes(results, problems)):
        console.print(Text(note))


def _rows(figures: Sequence[Figure]) -> dict[tuple[str, int], Row]:
    """One figure for each place in the table: the median, if it was measured several times."""
    by_row: dict[tuple[str, int], dict[str, list[Figure]]] = {}
    for figure in figures:
        row = by_row.setdefault((figure.measure, figure.nodes), {})
        row.setdefault(figure.contestant, []).append(figure)
    return {
        name: {contestant: _median(repeated) for contestant, repeated in row.items()}
        for name, row in by_row.items()
    }


def _median(repeated: Sequence[Figure]) -> Figure:
    """The figure with the median value. If any failed, a failed one: the others' median would be too good."""
    values = [each.value for each in repeated if each.value is not None]
    if len(values) < len(repeated):
        return next(each for each in repeated if each.value is None)
    return structs.replace(repeated[0], value=median(values))


def _unit(row: Row) -> str:
    return next((each.unit for each in row.values() if each.unit), "")


def _cell(row: Row, contestant: Contestant, problems: list[str]) -> Text:
    figure = row.get(contestant.key)
    if figure is None:
        return Text("")
    if figure.value is None:
        problems.append(f"{contestant.title}, {figure.measure}, {figure.nodes:,} nodes: {figure.problem}")
        return Text(f"failed [{len(problems)}]", "red")
    cell = Text(_rounded(figure.value))
    if ratio := _ratio(row, figure):
        cell.append(f" {ratio}", "dim")
    return cell


def _ratio(row: Row, figure: Figure) -> str:
    """The value divided by the baseline's value."""
    base = next((row[key].value for key in BASELINES if key in row and row[key].value), None)
    if not base or figure.value is None:
        return ""
    return f"{figure.value / base:6.2f}x"


def _rounded(value: float) -> str:
    """The value with three digits."""
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _ratios(rows: Mapping[tuple[str, int], Row], columns: Sequence[Contestant]) -> Iterator[str]:
    """How each contestant's throughput compares with the baseline's over all workloads."""
    measured = [row for row in rows.values() if _is_throughput(row)]
    base = next((each for each in columns if each.key == BASELINES[0]), None)
    for contestant in columns if base else ():
        ratios = {
            row[contestant.key].measure.split(",")[0]: of / by
            for row in measured
            if {contestant.key, BASELINES[0]} <= row.keys()
            and (of := row[contestant.key].value)
            and (by := row[BASELINES[0]].value)
        }
        if base and contestant is not base and len(ratios) > 1:
            least = min(ratios, key=ratios.__getitem__)
            yield (
                f"{contestant.title}: {median(ratios.values()):.2f}x of {base.title} in the median of "
                f"{len(ratios)} workloads; least {ratios[least]:.2f}x, {least}."
            )


def _is_throughput(row: Row) -> bool:
    return any(each.part == "throughput" and each.unit == "pods/s" for each in row.values())


def _notes(results: Results, problems: Sequence[str]) -> Iterator[str]:
    titles = {each.key: each.title for each in CONTESTANTS}
    keys = {each.contestant for each in results.figures}
    base = next((titles[key] for key in BASELINES if key in keys), None)
    if base:
        yield f"x: times what {base} has in the same row."
    parts = {each.part for each in results.figures}
    if "decide" in parts:
        yield "deciding alone: by seconds of CPU time, in a process of its own, without an API server."
    if "replay" in parts:
        yield "replay: by the clock, in virtual time, without an API server. Of a recorded day: CPU time."
    if "tick" in parts:
        yield "tick: CPU time of one tick with --watch, what it reads handed to it, writes left out."
        yield from _tick_ratios(results.figures)
    if "burst" in parts:
        yield "burst: from SIGCONT, with all pods waiting, to the last binding that a watch sees."
        for each in CONTESTANTS:
            if each.key in keys and each.most_pods:
                yield f"{each.title}: a burst of {each.most_pods} pods at the most, as it is slow."
    if "throughput" in parts:
        yield "workloads, as in scheduler_perf: pods that run already + pods measured, timed like a burst."
    if "single" in parts:
        yield "one pod at a time: from the sending of its POST to the binding that a watch sees."
    if "beside" in parts:
        yield "beside pods that wait: the same, with one pod after the other at an even pace."
    if rounds := _rounds(results.figures):
        yield f"burst, workloads, one pod at a time, failover: the medians of {rounds} rounds."
    if "start" in parts or "idle" in parts:
        bound = max(each.bound for each in results.figures if each.part in ("start", "idle"))
        yield f"start, peak memory, idle: with {bound:,} pods bound before; idle: {results.idle_seconds:g} s."
        yield "CPU: of the scheduler's own process; kubectl proxy's has its own row."
        yield "network: both directions, at the API server's door, TLS as it is."
    if "failover" in parts:
        yield "failover: of two with --leader-elect, on a real API server of their own, the leader fails."
        yield "Seconds from then to the binding of a pod that is created then. Who wrote: in the audit log."
    if "size" in parts:
        yield "with so many pods: two containers each; --idle says for how long at rest."
    if parts & {"throughput", "start", "size"}:
        yield "peak memory: of the scheduler's own process."
    if results.load > BUSY:
        yield f"the machine was busy with something else before (load {results.load:.1f}): run it again."
    for key, why in results.left_out.items():
        yield f"left out: {titles[key]}: {why}."
    for number, problem in enumerate(problems, 1):
        yield f"[{number}] {problem}"


def _tick_ratios(figures: Sequence[Figure]) -> Iterator[str]:
    """How much more a tick costs beside pods that wait than without any, at worst."""
    by_name = {each.measure: each.value for each in figures if each.part == "tick" and each.value}
    for phase, waiting in dict.fromkeys((each.measure.split()[-1], each.pods) for each in figures):
        names = {what: tick_of(what, waiting, phase) for what in KINDS}
        ratios = {
            what: by_name[name] / alone
            for what, name in names.items()
            if waiting and name in by_name and (alone := by_name.get(tick_of(what, 0, phase)))
        }
        if ratios:
            worst = max(ratios, key=ratios.__getitem__)
            yield f"tick beside {waiting:,} pods {phase}: {ratios[worst]:.2f}x at most ({worst})."


def _rounds(figures: Sequence[Figure]) -> int:
    """How many times the same was measured; 0 if only once."""
    places = Counter((each.measure, each.nodes, each.contestant) for each in figures)
    most = max(places.values())
    return most if most > 1 else 0


def console() -> Console:
    plain = Console()
    return plain if plain.is_terminal else Console(width=WIDTH)
