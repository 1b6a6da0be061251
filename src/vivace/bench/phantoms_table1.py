"""Table 1 of paper 000, theirs beside ours: what a parallel step costs, over the number of steps and of constraints.

The paper counts kernel calls: 344 are 8 iterations over the 43 colors of the tori, and its frames take as long as
their calls, 4 to 5 us each, whatever the calls contain. Ours are `tori` of 200K to 800K constraints, always 8
iterations over the same constraints in the same order. The batch of each color is cut into pieces, which share no
particle either, so more steps do the same work and give the same bits: what a frame takes longer is the cost of steps
alone, a barrier and an uneven share now and then. `us a step` is the slope of a line through all frames of one size, on
as many threads.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..batches import Partition
from ..kernels.lanes import WIDTH
from ..kernels.region import core_count
from ..model import Model
from ..plan import Plan, planned_group
from ..scenes import tori
from ..simulation import Simulation
from ..solvers.gauss_seidel import ColoredGaussSeidel
from .relaxation import fastest, parallel_steps

NAME = "phantoms-table1"
ITERATIONS = 8
SCALES = {0.25: "200K", 0.5: "400K", 1.0: "800K"}
# ms a frame on a GeForce 660: kernel calls, constraints.
PAPER = {
    (344, "200K"): 1.7,
    (344, "400K"): 2.2,
    (344, "800K"): 1.9,
    (688, "200K"): 3.8,
    (688, "400K"): 4.0,
    (688, "800K"): 3.7,
    (1032, "200K"): 5.3,
    (1032, "400K"): 5.5,
    (1032, "800K"): 13.0,
}
STEPS = (344, 688, 1032, 4128, 8256)  # the last two are ours, for a longer lever
TURNS = 8
LEAST = 0.02  # us that can be told from none


@dataclass(frozen=True)
class CutColors(ColoredGaussSeidel):
    """Gauss-Seidel whose colors are cut into `steps` batches an iteration, or left as they are, if these are fewer.

    Each of so many threads keeps the constraints that it has without cuts: else particles would move from core to core
    more often, which takes longer than the steps themselves.
    """

    steps: int = 0
    threads: int = 1

    def prepare(self, model: Model, iterations: int, seed: int) -> Plan:
        plan = super().prepare(model, iterations, seed)
        sizes = np.concatenate([np.diff(planned.partition.offsets) for planned in plan.groups])
        pieces = iter(1 + _shared_out(max(self.steps - len(sizes), 0), sizes))
        groups = []
        for planned in plan.groups:
            order, offsets = planned.partition.order, planned.partition.offsets
            cut = [_cut(a, b, next(pieces), self.threads) for a, b in zip(offsets[:-1], offsets[1:])]
            members, ends = (np.concatenate(parts) for parts in zip(*cut))
            rows = plan.row_of[planned.group.vertices].astype(np.int32)
            batches = Partition(order[members], np.append(0, ends))
            groups.append(planned_group(planned.group, rows, batches, planned.coloring))
        return replace(plan, groups=tuple(groups))


def _shared_out(count: int, sizes: np.ndarray) -> np.ndarray:
    """`count` things shared out in proportion to the sizes."""
    return np.diff(np.round(np.append(0, np.cumsum(sizes)) * count / sizes.sum())).astype(int)


def _cut(begin: int, end: int, pieces: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
    """The members of a batch, piece by piece, and where the pieces end; whole blocks of lanes stay together."""
    blocks = -(-(end - begin) // WIDTH)
    shares = np.diff(blocks * np.arange(threads + 1) // threads)
    piece_of = np.concatenate([np.arange(share) * pieces // max(share, 1) for share in shares])
    dealt = np.argsort(piece_of, kind="stable")
    members = begin + (dealt[:, None] * WIDTH + np.arange(WIDTH)).ravel()
    sizes = np.bincount(piece_of)
    return members[members < end], np.minimum(begin + WIDTH * np.cumsum(sizes[sizes > 0]), end)


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    simulations: dict[tuple[str, int], list[Simulation]] = {}
    for scale, size in [(0.02, "16K")] if quick else SCALES.items():
        progress(f"{size} constraints: building")
        scene = tori.scene(scale)
        scene.surfaces, scene.touching = [], None
        for threads in sorted({1, core_count()}):
            solvers = [CutColors(steps=steps // ITERATIONS, threads=threads) for steps in STEPS]
            simulations[size, threads] = [Simulation(scene, solver, ITERATIONS, threads=threads) for solver in solvers]
    best = {key: np.full(len(STEPS), np.inf) for key in simulations}
    for turn in range(1 if quick else TURNS):  # a busy moment of the machine then hits a turn of each, not all of one
        for (size, threads), own in simulations.items():
            progress(f"{size} constraints on {threads} threads, turn {turn + 1}")
            times = fastest([simulation.step for simulation in own], seconds=1.0, threads=threads)
            best[size, threads] = np.minimum(best[size, threads], times)
    return [row for key, own in simulations.items() for row in _rows(*key, own, best[key])]


def _rows(size: str, threads: int, simulations: list[Simulation], times: np.ndarray) -> list[dict[str, Any]]:
    steps = [ITERATIONS * parallel_steps(simulation.plan) for simulation in simulations]
    slope, _ = np.polyfit(steps, times, 1)
    return [
        {
            "constraints": size,
            "exactly": sum(map(len, simulations[0].model.groups)),
            "threads": threads,
            "parallel steps": count,
            "ms a frame": milliseconds,
            "theirs ms": PAPER.get((count, size), ""),
            "us a step": 1e3 * slope,
        }
        for count, milliseconds in zip(steps, times)
    ]


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    figure.set_size_inches(11, 4.6)
    left, right = figure.subplots(1, 2)
    colors = dict(zip(dict.fromkeys(row["constraints"] for row in rows), ("#88bbdd", "#4477aa", "#223355")))
    most = max(row["threads"] for row in rows)
    for size, color in colors.items():
        own = [row for row in rows if row["constraints"] == size and row["threads"] == most]
        x, y = [row["parallel steps"] for row in own], [row["ms a frame"] for row in own]
        left.plot(x, y, "o-", color=color, label=f"ours, {size}: {own[0]['us a step']:.2f} µs a step")
        theirs = [row for row in own if row["theirs ms"] != ""]
        left.plot(
            [row["parallel steps"] for row in theirs],
            [row["theirs ms"] for row in theirs],
            "s--",
            color=color,
            mfc="white",
            label=f"theirs (GPU), {size}",
        )
    left.set(xscale="log", xlabel="parallel steps a frame", ylabel="ms a frame", ylim=(0, None))
    ticks = sorted({row["parallel steps"] for row in rows})
    left.set_xticks(ticks, map(str, ticks), fontsize=8)
    left.minorticks_off()
    left.set_title(f"8 iterations, cut into more and more steps, {most} threads", fontsize=10)
    left.legend(fontsize=7, loc="center", bbox_to_anchor=(0.72, 0.6))
    threads = sorted({row["threads"] for row in rows})
    for i, count in enumerate(threads):
        costs = [next(r["us a step"] for r in rows if r["constraints"] == s and r["threads"] == count) for s in colors]
        places, label = np.arange(len(colors)) + i * 0.27, f"ours, {count} thread{'s' * (count > 1)}"
        bars = right.bar(places, np.maximum(costs, LEAST), 0.25, color=("#88bbdd", "#4477aa")[i % 2], label=label)
        right.bar_label(bars, [f"{cost:.2f}" if cost > LEAST else f"< {LEAST}" for cost in costs], fontsize=8)
    their_cost = [_slope(size) for size in colors if (344, size) in PAPER]
    if their_cost:
        bars = right.bar(
            np.arange(len(colors)) + len(threads) * 0.27, their_cost, 0.25, color="#999999", label="theirs"
        )
        right.bar_label(bars, fmt="%.1f", fontsize=8)
    right.set_xticks(np.arange(len(colors)) + 0.27, list(colors))
    right.set(yscale="log", ylabel="µs", xlabel="constraints")
    right.set_title("Cost of one more parallel step", fontsize=10)
    right.set_ylim(0.01, 100)
    right.legend(fontsize=8, loc="upper left")
    figure.suptitle("Paper 000, table 1: a step costs a barrier here, and a kernel call there")


def _slope(size: str) -> float:
    """Cost of a kernel call in the paper's table [us]."""
    calls = (344, 688, 1032)
    return float(np.polyfit(calls, [PAPER[count, size] for count in calls], 1)[0] * 1e3)
