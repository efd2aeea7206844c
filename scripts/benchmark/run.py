"""Runs all measurements; if one fails, the others go on."""

import http.client
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from rich.progress import Progress

from scripts.benchmark import measures
from scripts.benchmark.arena import Arena
from scripts.benchmark.beside import WAITING_BY, beside, cpu_title, title as title_beside
from scripts.benchmark.client import RefusedError
from scripts.benchmark.contestants import Contestant
from scripts.benchmark.decisions import decide, decide_workload, deciding
from scripts.benchmark.failover import LATE, NODES, WAYS, failover, title
from scripts.benchmark.figures import WITHOUT_ARENA, Figure, Part
from scripts.benchmark.measures import Result
from scripts.benchmark.options import Options
from scripts.benchmark.processes import FailedError
from scripts.benchmark.recorded import PAST, ask_past
from scripts.benchmark.replaying import REPLAY, replay
from scripts.benchmark.steady import steady
from scripts.benchmark.ticks import KINDS, PHASES, tick_of, ticks
from scripts.benchmark.workloads import NAMES, Workload, chosen

FAILURES = (FailedError, RefusedError, OSError, http.client.HTTPException)


@dataclass(frozen=True)
class Step:
    """One measurement of one contestant. yields: the names of its measures."""

    part: Part
    yields: Sequence[str]
    contestant: Contestant
    nodes: int
    measure: Callable[[], list[Result]]
    bound: int = 0
    workload: Workload | None = None

    def __str__(self) -> str:
        return f"{self.yields[0]}; {self.nodes:,} nodes; {self.contestant.title}"

    def prepare(self, arena: Arena) -> None:
        """Prepare the cluster for the measurement."""
        if self.part in WITHOUT_ARENA:
            return
        if self.workload:
            arena.prepare_workload(self.workload)
        elif self.part == "size":
            arena.prepare_size(self.nodes, self.bound)
        else:
            arena.prepare(self.nodes, self.bound)


def steps(arena: Arena, options: Options, contestants: Sequence[Contestant]) -> list[Step]:
    """All measurements: those with the fewest nodes first, and the contestants right after each other."""
    planned = [
        *_deciding(options, contestants),
        *_replaying(options, contestants),
        *_ticking(options, contestants),
        *_singles(arena, options, contestants),
        *_beside(arena, options, contestants),
        *_bursts(arena, options, contestants),
        *_throughput(arena, options, contestants),
        *_at_rest(arena, options, contestants),
        *_sizes(arena, options, contestants),
        *_failover(arena, options, contestants),
    ]
    return [each for each in planned if each.part in options.only]


def _deciding(options: Options, contestants: Sequence[Contestant]) -> Iterator[Step]:
    """The decisions alone: of bursts, or of the chosen workloads."""
    contestants = _taking_part("decide", contestants)
    sizes = () if options.workload else options.nodes
    for contestant, nodes, alike in product(contestants, sizes, (True, False)):
        measure = partial(decide, nodes, options.pods, alike=alike)
        yield Step("decide", [deciding(measures.in_words(alike))], contestant, nodes, measure)

    for workload, contestant in product(chosen(options.workload or (), options.scale), contestants):
        measure = partial(decide_workload, workload, options.scale)
        yield Step(
            "decide", [deciding(workload.title)], contestant, workload.nodes, measure, workload.existing
        )


def _replaying(options: Options, contestants: Sequence[Contestant]) -> Iterator[Step]:
    for contestant, nodes in product(_taking_part("replay", contestants), options.nodes):
        yield Step("replay", [REPLAY], contestant, nodes, partial(replay, nodes, options.pods))
        yield Step("replay", [PAST], contestant, nodes, partial(ask_past, nodes, options.pods))


def _ticking(options: Options, contestants: Sequence[Contestant]) -> Iterator[Step]:
    """Ticks beside pods that wait, in the largest cluster."""
    nodes = options.nodes[-1]
    for contestant, phase in product(_taking_part("tick", contestants), PHASES):
        waiting = [0, *options.waiting]
        yields = [tick_of(what, number, phase) for what in KINDS for number in waiting]
        yield Step("tick", yields, contestant, nodes, partial(ticks, nodes, phase, waiting))


def _singles(arena: Arena, options: Options, contestants: Sequence[Contestant]) -> Iterator[Step]:
    for _, contestant in product(range(options.repeat), _taking_part("single", contestants)):
        measure = partial(measures.single, arena, contestant, options.singles, options.limit)
        yield Step("single", [measures.P50, measures.P99], contestant, options.nodes[0], measure)


def _beside(arena: Arena, options: Options, contestants: Sequence[Contestant]) -> Iterator[Step]:
    """Beside no pods that wait, and beside the most, for each way to wait."""
    waiting = [("gated", 0), *((how, options.waiting[-1]) for how in WAITING_BY)]
    for step, _, contestant in product(waiting, range(options.repeat), _taking_part("beside", contestants)):
        measure = partial(beside, arena, contestant, step, options.singles, options.limit)
        yields = [title_beside(step), cpu_title(step)]
        yield Step("beside", yields, contestant, options.nodes[0], measure)


def _bursts(arena: Arena, options: Options, contestants: Sequence[Contestant]) -> Iterator[Step]:
    """They are repeated in rounds, so that a minute in which the machine is slow hits all contestants."""
    for nodes, alike, _, contestant in product(
        options.nodes, (True, False), range(options.repeat), _taking_part("burst", contestants)
    ):
        measure = partial(measures.burst, arena, contestant, options.pods, options.limit, alike=alike)
        yield Step("burst", [measures.burst_of(alike)], contestant, nodes, measure)


def _throughput(arena: Arena, options: Options, contestants: Sequence[Contestant]) -> Iterator[Step]:
    """In rounds, too. Those of one workload come right after each other, as its nodes and pods exist then."""
    for workload, _, contestant in product(
        chosen(options.workload or NAMES, options.scale),
        range(options.repeat),
        _taking_part("throughput", contestants),
    ):
        if contestant.workloads is None or workload.name in contestant.workloads:
            how = steady if workload.steady else measures.throughput
            measure = partial(how, arena, contestant, workload, options.limit)
            yields = [workload.title, measures.memory_of(workload)]
            yield Step("throughput", yields, contestant, workload.nodes, measure, workload.existing, workload)


def _at_rest(arena: Arena, options: Options, contestants: Sequence[Contestant]) -> Iterator[Step]:
    """Start and idle costs, in the largest cluster, with pods that run already."""
    nodes, bound = options.nodes[-1], options.bound
    for contestant in _taking_part("start", contestants):
        measure = partial(measures.start, arena, contestant, options.limit)
        yield Step("start", [measures.START, measures.MEMORY], contestant, nodes, measure, bound)
    for contestant in _taking_part("idle", contestants):
        measure = partial(measures.idle, arena, contestant, options.idle, options.limit)
        yields = [measures.CPU, measures.PROXY_CPU, measures.NETWORK]
        yield Step("idle", yields, contestant, nodes, measure, bound)


def _sizes(arena: Arena, options: Options, contestants: Sequence[Contestant]) -> Iterator[Step]:
    for (nodes, bound), contestant in product(options.sizes, _taking_part("size", contestants)):
        measure = partial(measures.size, arena, contestant, bound, options.pods, options.idle, options.limit)
        yields = [measures.size_of(what, bound) for what in measures.OF_SIZE]
        yield Step("size", yields, contestant, nodes, measure, bound)


def _failover(arena: Arena, options: Options, contestants: Sequence[Contestant]) -> Iterator[Step]:
    for _, contestant in product(range(options.repeat), _taking_part("failover", contestants)):
        measure = partial(failover, contestant, arena.folder, options.limit, tuple(WAYS))
        yield Step("failover", [*map(title, WAYS), LATE], contestant, NODES, measure)


def _taking_part(part: Part, contestants: Sequence[Contestant]) -> list[Contestant]:
    return [each for each in contestants if part in each.parts]


def run(planned: Sequence[Step], arena: Arena, progress: Progress) -> list[Figure]:
    """Take all steps; returns their figures in the same order."""
    figures: list[Figure] = []
    task = progress.add_task("", total=len(planned))
    for step in planned:
        progress.update(task, description=str(step))
        if not progress.console.is_terminal:
            progress.console.print(str(step))
        made = _made(step, arena)
        figures += made
        progress.advance(task)
    return figures


def _made(step: Step, arena: Arena) -> list[Figure]:
    try:
        step.prepare(arena)
        return [_figure(step, each) for each in step.measure()]
    except FAILURES as error:
        return [_figure(step, Result(measure), str(error)) for measure in step.yields]


def _figure(step: Step, result: Result, problem: str = "") -> Figure:
    return Figure(
        step.part,
        result.measure,
        step.contestant.key,
        step.nodes,
        result.value,
        result.unit,
        result.pods,
        step.bound,
        list(result.samples),
        problem,
    )
