"""What each built-in constraint measures; what all of them must hold is in conformance/test_constraints.py."""

import numpy as np
import pytest

from vivace.constraints import bend, constraints, find, stretch, volume
from vivace.model import measure

UNIT_TET = np.array([[[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]], float)


def book(angle):
    """Two pages along x, the second folded up by `angle` from lying flat."""
    return np.array([[[0, 0, 0], [1, 0, 0], [0.5, 1, 0], [0.5, -np.cos(angle), np.sin(angle)]]])


def test_files_of_the_folder_are_the_constraints():
    assert {"stretch", "bend", "volume"} <= set(constraints())


def test_stretch_measures_a_length():
    assert measure(stretch, np.array([[[1, 1, 1], [1, 4, 5]]])) == pytest.approx(5)


def test_volume_measures_a_signed_volume():
    assert measure(volume, UNIT_TET) == pytest.approx(1 / 6)
    assert measure(volume, UNIT_TET[:, [0, 2, 1, 3]]) == pytest.approx(-1 / 6)


@pytest.mark.parametrize("angle", np.radians([-170, -90, -30, -1e-3, 0, 1e-3, 45, 90, 179]))
def test_bend_measures_the_fold_from_flat_with_its_sign(angle):
    assert measure(bend, book(angle)) == pytest.approx(
        measure(bend, book(np.pi / 2))[0] / (np.pi / 2) * angle, abs=1e-6
    )


def test_bend_is_the_dihedral_of_mueller_2007():
    """There phi = acos(n1 . n2) is pi at flat and has no sign: |fold| = pi - phi, the same constraint."""
    for points in np.random.default_rng(0).uniform(-1, 1, (100, 4, 3)):
        p2, p3, p4 = points[1:] - points[0]
        n1, n2 = np.cross(p2, p3), np.cross(p2, p4)
        phi = np.arccos(n1 @ n2 / np.linalg.norm(n1) / np.linalg.norm(n2))
        assert abs(measure(bend, points[None])[0]) == pytest.approx(np.pi - phi, abs=1e-6)


def test_find_takes_a_name_or_anything_with_arity_and_value_gradient():
    class Height:
        ARITY = 1
        value_gradient = staticmethod(lambda corners, rest: None)

    assert find("bend") == ("bend", bend)
    assert find(Height) == ("Height", Height)
    assert find(stretch) == ("stretch", stretch)
