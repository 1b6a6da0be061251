"""A run as a user has asked for it: what is needed to start it, and to go on with it from a checkpoint."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import checkpoint, scenes, solvers
from .budget import check_budget
from .errors import InputError
from .scenes import Settings, Setup
from .simulation import Simulation


@dataclass(frozen=True)
class Job:
    """All that a run depends on, but the files that it writes."""

    scene: str  # a name, or a file
    scale: float
    solver: str
    options: dict[str, Any]  # of the solver
    settings: Settings
    seed: int = 0
    budget_ms: float | None = None

    @property
    def setup(self) -> Setup:
        return scenes.find(self.scene)

    def check(self) -> None:
        """An error that names what is wrong, before anything takes long."""
        solvers.find(self.solver, **self.options)
        if self.budget_ms is not None:
            check_budget(self.budget_ms, self.settings.spend)

    def simulation(
        self, threads: int | None = None, backend: str = "cpu", say: Callable[[str], None] = lambda _: None
    ) -> Simulation:
        """The scene, ready to run from its start."""
        setup = self.setup
        say(f"building {setup.name}")
        made = setup.make(self.scale)
        say(f"coloring {setup.name}, {made.particle_count} particles")
        motion = self.settings.iterations, self.settings.substeps, self.settings.dt, self.settings.damping
        return Simulation(made, solvers.find(self.solver, **self.options), *motion, threads, self.seed, backend)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, for a checkpoint; a scene's file is found from wherever it is read."""
        scene = str(Path(self.scene).resolve()) if self.scene.endswith(".py") else self.scene
        return {**asdict(self), "scene": scene}


def job_of(path: Path) -> Job:
    """The job that a checkpoint belongs to."""
    about = checkpoint.read_header(path)["about"]
    if "job" not in about:
        raise InputError(f"{path} does not say which run it is of; load it from Python: simulation.load(...)")
    return Job(**{**about["job"], "settings": Settings(**about["job"]["settings"])})
