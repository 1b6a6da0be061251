"""Few iterations, stiff springs, scrambled starts: does the energy of `tablecloth` and `armadillo` stay bounded?

600 frames of 33 ms without damping at 2, 4 and 8 iterations. Energies are in J/kg: 10 is a fall of a meter. Chebyshev
runs with its defaults and from the first iteration, and is reported, whatever it does.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import SimulationError
from ..scene import Scene
from ..scenes import tablecloth
from ..simulation import Simulation
from ..solvers.base import Solver
from ..solvers.pd_chebyshev import PDChebyshev
from ..solvers.vivace import Vivace
from .vivace_fig5 import of_ratio

NAME = "stability"
RATIOS = (1.0, 10.0, 100.0, 1000.0)
SOLVERS: dict[str, Solver] = {
    "vivace": Vivace(),
    "pd-chebyshev": PDChebyshev(),
    "pd-chebyshev, start 1": PDChebyshev(start=1, relaxation=1.0),
}


def run(quick: bool = False, progress: Callable[[str], None] = print) -> list[dict[str, Any]]:
    scale = 0.05 if quick else 1.0
    scenes: dict[str, Callable[[float], Scene]] = {
        "tablecloth": lambda ratio: tablecloth.scene(scale, tablecloth.springs(ratio, scale)),
        "armadillo": of_ratio(scale),
    }
    rows = []
    for name, make in scenes.items():
        for solver in SOLVERS:
            for ratio in RATIOS[1::2] if quick else RATIOS:
                for scrambled in (False, True):
                    row: dict[str, Any] = {"scene": name, "solver": solver, "k h^2/m": ratio, "scrambled": scrambled}
                    for iterations in (2, 4, 8):
                        progress(f"{name}, {solver}, {ratio:g}, {iterations} iterations")
                        most, last = energies(make(ratio), SOLVERS[solver], iterations, 20 if quick else 600, scrambled)
                        row |= {f"{iterations}: largest": most, f"{iterations}: at the end": last}
                    rows.append(row)
    return rows


def energies(scene: Scene, solver: Solver, iterations: int, frames: int, scrambled: bool) -> tuple[float, float]:
    """The largest kinetic energy and its mean over the last tenth [J/kg]; infinite if it broke."""
    simulation = Simulation(scene, solver, iterations, dt=1 / 30, damping=0.0)
    free = simulation.model.inverse_masses > 0
    if scrambled:
        stirred = simulation.positions.copy()
        stirred[free] += np.random.default_rng(1).normal(0, 0.3, (free.sum(), 3))
        simulation.positions = stirred
    masses = 1 / simulation.model.inverse_masses[free].astype(float)
    seen = []
    try:
        for _ in simulation.run(frames):
            squared = (simulation.velocities[free].astype(float) ** 2).sum(axis=1)
            seen.append(float(masses @ squared / masses.sum() / 2))
    except SimulationError:
        return np.inf, np.inf
    return max(seen), float(np.mean(seen[-max(frames // 10, 1) :]))


def plot(rows: list[dict[str, Any]], figure: Any) -> None:
    names = list(dict.fromkeys(row["scene"] for row in rows))
    figure.set_size_inches(5.5 * len(names), 4.5)
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names):
        for solver, color in zip(SOLVERS, ("#bb3333", "#7a3fa0", "#2b5fa5")):
            for scrambled, mark in ((False, "o-"), (True, "s:")):
                chosen = [r for r in rows if (r["scene"], r["solver"], r["scrambled"]) == (name, solver, scrambled)]
                worst = [min(max(r[f"{k}: largest"] for k in (2, 4, 8)), 1e12) for r in chosen]
                label = f"{solver}{', scrambled' if scrambled else ''}"
                axes.plot([r["k h^2/m"] for r in chosen], worst, mark, color=color, label=label)
        axes.set(xscale="log", yscale="log", ylim=(1, 2e12), xlabel="k h² / m", ylabel="largest kinetic energy, J/kg")
        axes.set_title(f"{name}: worst of 2, 4 and 8 iterations")
        axes.legend(fontsize=7)
