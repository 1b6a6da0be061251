"""Several ranks on this machine: what a frame of `corner-cloth` costs on each number of them, and on many by a model.

Five iterations of the solver implicit, one thread a rank, the fastest frame of several, without and with reading all
positions. Ranks and threads take turns of some seconds: where cores and memory are shared with others, a machine
is slow for minutes, or for moments. All that take turns are kept ready, about 8 GB for a million particles on two
cores. Kinds of rows: `strong`, the same particles on more ranks; `weak`, as many
particles for each rank; `threads`, one process without MPI; `apart`, processes that have their shares of the particles
and need nothing of each other, which is about what the machine can give; `model`. Speedup is over one rank, or over
one thread (`threads`, `apart`), of the fastest frames in the same turn: the median over turns, with the least and the
most, and beside it that of the fastest frames of all turns; in `weak` it is what the ranks do together over what one
does alone. Efficiency is speedup over cores, and `core ns a particle`
counts the time of all cores. Where the median of frames, with positions, is far above the best, other programs have
held the cores, and the row says little. The residual is what the iterations leave of it, the median over the frames.

`colored` rows: ten iterations of gauss-seidel and of vivace, whose speedup is over one process with one thread; beside
them the messages that the first rank sends in a frame, and the rows of one, their mean.

The model: T(P) = c n/P + (iterations + 2) (neighbors * latency + halo / bandwidth)
                + (iterations + 3) * allreduce * ceil(log2 P)
where c is measured here on one rank, neighbors are 4, and the halo is that of a square part of the grid: 4 sides of
sqrt(n/P) particles, 2 rows deep, 32 bytes each. A product sends directions to one of two neighbors, and what springs do
to its rows back; assembling sends three such sums, and velocities go one way: with them, a product and two more of
each. Nothing is hidden behind other work, and nobody reads the positions.
Networks: latency, bandwidth, and time for each level of an allreduce.
    virtual Ethernet within one machine, measured once, not in this run: 8 us, 2.4 GB/s, 14.4 us
    1 GbE, assumed: 50 us, 0.117 GB/s, 50 us
    fast fabric, assumed: 2 us, 10 GB/s, 2 us
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import ceil, log2, sqrt
from typing import Any

import numpy as np

from ..kernels.region import core_count
from .ranks import ITERATIONS, Case, Job

NAME = "mpi-scaling"
STRONG, WEAK = (10_000, 100_000, 1_000_000), 50_000  # particles; of each rank
QUICK_STRONG, QUICK_WEAK = (2500,), 1250
TURNS = 20
KINDS = "strong", "threads", "weak", "colored", "apart"
COLORED, COLORED_ITERATIONS = ("gauss-seidel", "vivace"), 10
MODELLED = (2, 16, 100)  # ranks, each on a host of its own
NEIGHBORS, HALO_DEPTH, ROW_BYTES = 4, 2, 32


@dataclass(frozen=True, order=True)
class Measured:
    """What the rows of all turns are of."""

    kind: int  # its number among KINDS
    solver: str
    particles: int  # as asked for
    ranks: int
    threads: int

    def is_over(self, other: "Measured") -> bool:
        """Whether its speedup is over that of the other."""
        kind = "threads" if KINDS[self.kind] == "apart" else KINDS[self.kind]
        same = kind == "weak" or self.particles == other.particles
        return same and (kind, self.solver) == (KINDS[other.kind], other.solver) and other.ranks * other.threads == 1


@dataclass(frozen=True)
class Network:
    latency: float  # [s]
    bandwidth: float  # [bytes/s]
    allreduce: float  # [s] a level


NETWORKS = {
    "virtual Ethernet, measured": Network(8e-6, 2.4e9, 14.4e-6),
    "1 GbE, assumed": Network(50e-6, 0.117e9, 50e-6),
    "fast fabric, assumed": Network(2e-6, 10e9, 2e-6),
}


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    strong, weak = (QUICK_STRONG, QUICK_WEAK) if quick else (STRONG, WEAK)
    found: dict[Measured, list[dict[str, Any]]] = {}
    for cases in _contests(strong, weak):
        with ExitStack() as open_jobs:
            jobs = {}
            for one, case in cases.items():
                progress(f"{KINDS[one.kind]}, {case.solver}, {one.particles} particles, {one.ranks} processes")
                apart, on_ranks = KINDS[one.kind] == "apart", case.backend == "mpi" or one.ranks > 1
                jobs[one] = open_jobs.enter_context(Job([case], one.ranks if on_ranks else None, apart))
                jobs[one].make_ready()
            for turn in range(1 if quick else TURNS):
                progress(f"turn {turn + 1}, {next(iter(cases)).particles} particles")
                for one, job in jobs.items():
                    found.setdefault(one, []).append(job.measure())
    rows = [_row(one, found) for one in sorted(found)]
    alone = {row["particles"]: row["step ms"] for row in rows if row["kind"] == "strong" and row["ranks"] == 1}
    return rows + [
        _modelled(name, network, n, milliseconds, ranks)
        for name, network in NETWORKS.items()
        for n, milliseconds in alone.items()
        for ranks in MODELLED
    ]


def _contests(strong: tuple[int, ...], weak: int) -> Iterator[dict[Measured, Case]]:
    """What is measured in turns."""
    several, one = _up_to(core_count()), Case(0, backend="cpu")
    for n in strong:
        yield {
            **_cases("strong", Case(0), n, several),
            **_cases("threads", one, n, [1]),
            **_cases("threads", replace(one, threads=2), n, [1]),
            **_cases("apart", one, n, several[1:]),
        }
    yield {key: case for ranks in several for key, case in _cases("weak", Case(0), ranks * weak, [ranks]).items()}
    for solver in COLORED:
        ranked = Case(0, solver=solver, iterations=COLORED_ITERATIONS)
        one = replace(ranked, backend="cpu")
        for n in strong:
            yield {
                **_cases("colored", one, n, [1]),
                **_cases("colored", replace(one, threads=2), n, [1]),
                **_cases("colored", ranked, n, several[1:]),
            }


def _cases(kind: str, like: Case, particles: int, several: list[int]) -> dict[Measured, Case]:
    case = replace(like, particles=particles, frames=frames_for(particles))
    return {Measured(KINDS.index(kind), case.solver, particles, ranks, case.threads): case for ranks in several}


def frames_for(particles: int) -> int:
    """Frames of a turn: some, and not for too long. The first ones are slow, since others had the caches and memory."""
    return min(max(2_000_000 // particles, 12), 100)


def _up_to(cores: int) -> list[int]:
    """1, 2, 4 and so on, and all cores."""
    return sorted({*(2**i for i in range(cores.bit_length())), cores})


def _row(one: Measured, found: dict[Measured, list[dict[str, Any]]]) -> dict[str, Any]:
    turns, cores = found[one], one.ranks * one.threads
    best = min(turns, key=lambda row: row["step ms"])
    medians = {name: float(np.median([row[name] for row in turns])) for name in {"median ms", "residual"} & best.keys()}
    row = {"kind": KINDS[one.kind], "particles": best["particles"], "ranks": one.ranks, "threads": one.threads}
    row |= {"frames": sum(row["frames"] for row in turns), "step ms": best["step ms"]}
    row |= {"with positions ms": min(row["best ms"] for row in turns), "median ms": medians["median ms"]}
    if "residual" in medians:
        row["relative residual"] = medians["residual"]
    if KINDS[one.kind] == "colored":
        row |= {"solver": one.solver, "messages": best["messages"], "rows a message": best["a message"]}
    base = next(found[other] for other in found if one.is_over(other))
    speedups = [_rate(own) / _rate(alone) for own, alone in zip(turns, base, strict=True)]
    speedup = float(np.median(speedups))
    return {
        **row,
        "speedup": speedup,
        "least speedup": min(speedups),
        "most speedup": max(speedups),
        "best over best": max(map(_rate, turns)) / max(map(_rate, base)),
        "efficiency": speedup / cores,
        "core ns a particle": 1e6 * cores / _rate(best),
    }


def _rate(row: dict[str, Any]) -> float:
    """Particles a millisecond."""
    return row["particles"] / row["step ms"]


def _nearest(counts: list[int], row: dict[str, Any]) -> int:
    """Processes apart have a few particles more or less in all."""
    return min(counts, key=lambda count: abs(count - row["particles"]))


def _modelled(name: str, network: Network, particles: int, alone: float, ranks: int) -> dict[str, Any]:
    halo = 4 * sqrt(particles / ranks) * HALO_DEPTH * ROW_BYTES
    exchange = NEIGHBORS * network.latency + halo / network.bandwidth
    sums = network.allreduce * ceil(log2(ranks))
    talking = 1e3 * ((ITERATIONS + 2) * exchange + (ITERATIONS + 3) * sums)
    milliseconds = alone / ranks + talking
    return {
        "kind": "model",
        "network": name,
        "particles": particles,
        "ranks": ranks,
        "threads": 1,
        "step ms": milliseconds,
        "of that talking ms": talking,
        "speedup": alone / milliseconds,
        "efficiency": alone / milliseconds / ranks,
        "core ns a particle": 1e6 * milliseconds * ranks / particles,
    }


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    counts = sorted({row["particles"] for row in rows if row["kind"] == "model"})
    lines = (len(counts) + 2) // 2
    figure.set_size_inches(11, 5.5 * lines)
    left, *others = figure.subplots(lines, 2, squeeze=False).flat
    for axes in others[len(counts) :]:
        axes.axis("off")
    colors = ("#4477aa", "#cc6677", "#228833", "#aa3377")
    most = max(row["ranks"] * row["threads"] for row in rows if row["kind"] != "model")
    left.plot([1, most], [1, most], color="black", linewidth=0.8, label="ideal")
    for n, color in zip(counts, colors):
        for kind, style, label in (
            ("strong", "o-", "ranks"),
            ("threads", "s:", "threads of one process"),
            ("apart", "_", "processes that need nothing of each other"),
        ):
            own = [row for row in rows if row["kind"] == kind and _nearest(counts, row) == n]
            cores = [row["ranks"] * row["threads"] for row in own]
            left.plot(cores, [row["speedup"] for row in own], style, color=color, label=f"{n:,} particles, {label}")
        own = [row for row in rows if row["kind"] == "colored" and (row["solver"], row["particles"]) == (COLORED[0], n)]
        spread = [row for row in own if row["threads"] == 1]
        label = f"{n:,} particles, {COLORED[0]} on ranks"
        left.plot([row["ranks"] for row in spread], [row["speedup"] for row in spread], "x--", color=color, label=label)
    own = [row for row in rows if row["kind"] == "weak"]
    label = f"{own[0]['particles']:,} particles for each rank"
    left.plot([row["ranks"] for row in own], [row["speedup"] for row in own], "^--", color="gray", label=label)
    left.set(
        xlabel="ranks, or threads", ylabel="speedup over one rank, or one thread", title="Measured on this machine"
    )
    left.set_xticks(sorted({row["ranks"] for row in rows if row["kind"] != "model"} | {1, most}))
    left.set_ylim(bottom=0)
    left.legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.17))
    for n, axes in zip(counts, others):
        axes.plot([1, max(MODELLED)], [1, max(MODELLED)], color="black", linewidth=0.8, label="ideal")
        for (name, _), color, style in zip(NETWORKS.items(), colors, ("s-", "^--", "v:")):
            own = [row for row in rows if row["kind"] == "model" and (row["network"], row["particles"]) == (name, n)]
            places, speedups = [1, *(row["ranks"] for row in own)], [1, *(row["speedup"] for row in own)]
            axes.plot(places, speedups, style, color=color, label=f"model, {name}")
        own = [row for row in rows if row["kind"] == "strong" and row["particles"] == n]
        places, speedups = [row["ranks"] for row in own], [row["speedup"] for row in own]
        axes.plot(places, speedups, "o", color="black", markerfacecolor="none", markersize=9, label="measured")
        axes.set(xscale="log", yscale="log", xlabel="ranks, one a host", title=f"{n:,} particles, by the model")
        axes.set_xticks([1, *MODELLED], [str(ranks) for ranks in (1, *MODELLED)])
        axes.set_xticks([], minor=True)
        axes.legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.17))
    figure.suptitle("A frame of corner-cloth on several ranks, 5 iterations")
