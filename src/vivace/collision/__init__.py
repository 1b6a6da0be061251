"""Colliders, one file each: a frozen dataclass with `parameters()` and a value function `distance_normal`.

`distance_normal(point, parameters)` returns the signed distance [m], negative inside, and the outward unit normal.
"""

from ..registry import declared


def colliders() -> dict[str, type]:
    """Every built-in collider class by its name."""
    return declared(__name__, "COLLIDERS")
