"""The verb `replay`: what would have become of a trace's pods, with each of several configurations?"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from lib.kube.objects import Node
from lib.kube.source import MAIN_SCHEDULER
from lib.kube.system import MACHINE
from lib.questions.asking import complain
from lib.questions.errors import QuestionError
from lib.questions.page import Page, print_json, run_through
from lib.questions.replay.figures import Figures, kinds_of
from lib.questions.replay.generated import SIZES, generated
from lib.questions.replay.plot import check, draw
from lib.questions.replay.reading import read_snapshot, read_trace, seconds_in
from lib.questions.replay.show import as_json, print_csv, show_replays
from lib.questions.replay.trace import Arrival, capacity, inflated, main_resource, requested
from lib.questions.replay.world import World
from lib.questions.snapshot import Snapshot
from lib.questions.verdict import Verdict
from lib.scheduling.framework.arguments import Handle
from lib.scheduling.framework.interface import Profile
from lib.scheduling.plugins.registry import default_profile
from lib.service.command_line import option
from lib.service.config.fields import ConfigError
from lib.service.config.file import default_config, load_config
from lib.service.policies import PolicyError, load_policies
from lib.service.served_profiles import Asked, profiles_for

TRACE, RUN, OUTPUT = "Pods and nodes", "How they are placed", "Output"
"""The parts of --help."""


class Output(StrEnum):
    """How the figures are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def ask_replay(
    context: typer.Context,
    nodes: Annotated[
        Path,
        option(
            TRACE, "The nodes: a CSV in the form of openb, manifests, or what `save` wrote.", metavar="FILE"
        ),
    ],
    trace: Annotated[
        Path | None,
        typer.Argument(
            metavar="TRACE",
            show_default=False,
            help="The pods: a CSV in the form of Alibaba's openb, or manifests (YAML); or else --arrivals.",
        ),
    ] = None,
    arrivals: Annotated[
        str, option(TRACE, "In place of TRACE: how often a pod arrives, at random.", metavar="poisson:20/min")
    ] = "",
    mix: Annotated[
        str, option(TRACE, f"With --arrivals: which pods, with weights. Sizes: {', '.join(SIZES)}.")
    ] = "small=70,large=30",
    during: Annotated[
        str, option(TRACE, "With --arrivals: for how long pods arrive.", "--for", metavar="DURATION")
    ] = "1h",
    runs_for: Annotated[
        str, option(TRACE, "With --arrivals: how long a pod runs, in the mean.", metavar="DURATION")
    ] = "10m",
    config: Annotated[
        list[Path] | None,
        option(
            RUN, "A KubeSchedulerConfiguration to replay by. Can be given several times.", metavar="FILE.yaml"
        ),
    ] = None,
    policy: Annotated[
        list[Path] | None,
        option(
            RUN,
            "Replay with the default filters, and with this policy alone for scores. "
            "Can be given several times.",
            metavar="FILE.py",
        ),
    ] = None,
    seed: Annotated[int, option(RUN, "The seed of all random choices.", metavar="NUMBER")] = 0,
    inflate: Annotated[
        float | None,
        option(
            TRACE,
            "Shuffle the pods, add some drawn at random until they ask for so many times what there is, "
            "and let none end.",
            min=0.0,
            metavar="FACTOR",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        option(
            OUTPUT,
            "Draw allocation, pending pods and used nodes over time. Needs matplotlib.",
            metavar="FILE.svg|png|html",
        ),
    ] = None,
    output: Annotated[
        Output, option(OUTPUT, "json and csv are for programs.", "--output", "-o")
    ] = Output.TABLE,
) -> Verdict:
    """What would have become of these pods, in virtual time: who gets a node, how long they wait.

    The cache, the queue, the plugins and preemption are those of the loop. Without --config and --policy, the
    default plugins decide. Exit 0: all pods got a node. 3: some didn't.
    """
    if plot:
        check(plot)
    snapshot = read_snapshot(nodes)
    random = MACHINE.random(seed)
    if (trace is None) == (arrivals == ""):
        raise QuestionError("replay needs a trace, or --arrivals: one of the two")
    if trace:
        coming = read_trace(trace, snapshot)
    else:
        length, mean_run = seconds_in(during, "--for"), seconds_in(runs_for, "--runs-for")
        coming = list(generated(arrivals, mix, length, mean_run, random))
        if not coming:
            raise QuestionError(
                f"--arrivals {arrivals}: no pod arrives within {during}; give --for more time"
            )
    if inflate is not None:
        coming = inflated(coming, snapshot.of(Node), inflate, random)
    files: list[Path | None] = [*(config or []), *(policy or [])]
    replays: list[Figures] = []
    for file in files or [None]:
        figures = _replayed(file, file in (policy or []), snapshot, coming, seed)
        replays.append(figures)
        if not figures.complete:
            complain(context.command_path, "stopped; what there is so far:")
            break
    if plot:
        draw(replays, plot)
    if output == Output.JSON:
        print_json(as_json(replays))
    elif output == Output.CSV:
        print_csv(replays)
    else:
        show_replays(replays, Page())
    return Verdict.YES if all(each.complete and not each.pending for each in replays) else Verdict.NO


def _replayed(
    file: Path | None, is_policy: bool, snapshot: Snapshot, arrivals: Sequence[Arrival], seed: int
) -> Figures:
    """Replay with one configuration. At Ctrl-C, the figures so far."""
    random = MACHINE.random(seed)
    all_nodes = snapshot.of(Node)
    name = file.name if file else "default"
    main = main_resource(arrivals, all_nodes)
    shown = {main, *requested(each.like for each in arrivals)}
    there = {each: amount for each, amount in capacity(all_nodes).items() if each in shown}
    figures = Figures(name, there, main, kinds_of(arrivals))
    profiles = _profiles(file, is_policy, random)
    for plugin in {id(each): each for profile in profiles for each in profile.plugins}.values():
        if prepare := getattr(plugin, "prepare", None):
            prepare(each.like for each in arrivals)
    world = World(snapshot, profiles, random, figures.placed_pod, figures.left_pod)
    began, complete = MACHINE.monotonic(), False
    arrived = 0

    def steps() -> Iterator[None]:
        nonlocal arrived
        for now_arrived in world.run(arrivals):
            figures.tick(arrivals, now_arrived, len(world.queue), world.now)
            for _ in range(now_arrived - arrived):
                yield
            arrived = now_arrived

    try:
        run_through(steps(), len(arrivals), f"replaying with {name}")
        complete = True
    except KeyboardInterrupt:
        pass
    figures.end(world.cache, world.decisions, MACHINE.monotonic() - began, complete=complete)
    return figures


def _profiles(file: Path | None, is_policy: bool, random: Random) -> list[Profile]:
    """The profiles of a configuration; a policy's: the default plugins, of which only the filters count."""
    try:
        if file and is_policy:
            (loaded,) = load_policies([file])
            profile = default_profile(MAIN_SCHEDULER, *loaded.plugins)
            return [
                Profile(MAIN_SCHEDULER, profile.plugins, loaded.weights, percentage_of_nodes_to_score=100)
            ]
        read = load_config(file) if file else default_config()
        return profiles_for(read, Asked(None if read.profiles else MAIN_SCHEDULER), Handle(random))
    except (ConfigError, PolicyError) as error:
        raise QuestionError(str(error)) from error
