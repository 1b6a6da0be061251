"""XPBD (Macklin et al. 2016): position based dynamics with compliances and accumulated multipliers."""

from dataclasses import dataclass
from typing import ClassVar

from ..errors import InputError
from ..model import Model
from ..plan import Plan
from .gauss_seidel import ColoredGaussSeidel


@dataclass(frozen=True)
class XPBD(ColoredGaussSeidel):
    """The colored Gauss-Seidel solver for materials in physical units alone; stiffness ratios are refused.

    Each constraint's multiplier is kept over a substep and stops where it balances the compliance, so that the
    stiffness, once converged, is independent of iterations and dt.
    """

    MATERIALS: ClassVar[tuple[str, ...]] = ("physical",)

    def prepare(self, model: Model, iterations: int, seed: int) -> Plan:
        for group in model.groups:
            if group.compliance is None:
                raise InputError(
                    f"solver 'xpbd': group {group.name!r} has stiffness ratios, which are a matter of PBD; "
                    f"give the body vivace.Compliances, Springs or Elastic"
                )
        return super().prepare(model, iterations, seed)


SOLVERS = {"xpbd": XPBD}
