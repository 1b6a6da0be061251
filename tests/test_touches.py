"""Contacts met particle by particle: colors, pushes, and what comes of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vivace as vv
from helpers import WEIGHTLESS, bits
from vivace.coloring import Coloring, ColoringError, color
from vivace.contacts import Found, VertexColors, colors_with, meetings, slots_for
from vivace.contacts.crossing import crossing_pairs
from vivace.graph import vertex_graph
from vivace.kernels.contact import contact_move

T = 0.02  # thickness
MATERIALS = {"springs": vv.Springs(300.0, bend=1e-3), "ratios": vv.Ratios(stretch=0.9, bend=0.1)}


def two_sheets(material="springs", pins=(), solver=None, **options):
    """Two sheets without weight fly at each other."""
    scene = vv.Scene(gravity=WEIGHTLESS)
    mesh = vv.Mesh.grid(10, 10, size=(0.5, 0.5))
    low = scene.add_cloth(mesh, material=MATERIALS[material], name="low")
    high = scene.add_cloth(mesh.moved((0.013, 0.1, 0.007)), density=0.3, material=MATERIALS[material], name="high")
    low.pin(list(pins))
    scene.self_collision(T, friction=0.2)
    options = {"threads": 1, "iterations": 8, "substeps": 4, "damping": 0.0, **options}
    made = vv.Simulation(scene, solver or vv.Vivace(touch=True), **options)
    velocities = np.zeros((200, 3))
    velocities[low.rows, 1], velocities[high.rows, 1] = 1.0, -1.0
    velocities[list(pins)] = 0
    made.velocities = velocities
    return made


def watched(simulation):
    """What each detection found, and the colors that visits then went by."""
    seen, touches = [], simulation._sweeps.touches
    order_by, find = touches.visits.order_by, touches.contacts.find

    def finding():
        found = find()
        if found is not None:
            seen.append([found, None])
        return found

    def ordering(colors, count):
        seen[-1][1] = colors
        order_by(colors, count)

    touches.contacts.find, touches.visits.order_by = finding, ordering
    return seen


def assert_proper(simulation, found, colors):
    movable = simulation.plan.inverse_masses > 0
    for planned in simulation.plan.groups:
        ordered = np.sort(colors[planned.vertices], axis=1)
        assert (ordered[:, 1:] != ordered[:, :-1]).all()
    for corners in found.corners:
        held = [colors[row] for row in corners if row < len(movable) and movable[row]]
        assert len(set(held)) == len(held)


@pytest.mark.parametrize("pins", [(), (0, 9, 44, 45)])
@pytest.mark.parametrize("material", MATERIALS)
def test_sheets_do_not_pass_and_every_order_of_visits_is_proper(material, pins, monkeypatch):
    monkeypatch.setenv("VIVACE_DEBUG", "1")
    simulation = two_sheets(material, pins)
    seen, held = watched(simulation), simulation.positions[list(pins)]
    for report in simulation.run(16):
        assert crossing_pairs(simulation.positions, simulation.model.triangles) == 0
        assert report.touches.colors == seen[-1][1].max() + 1 and report.touches.overflow == 0
        assert 0 < report.milliseconds["recolor"] <= report.milliseconds["detect"]
    assert max(len(found) for found, _ in seen) > 200
    for found, colors in seen[::2]:
        assert_proper(simulation, found, colors)
    most = max(np.bincount(found.corners.ravel()).max() for found, _ in seen if len(found))
    assert most > 8  # more contacts than lanes
    assert (bits(simulation.positions[list(pins)]) == bits(held)).all()


@pytest.mark.parametrize("material", MATERIALS)
def test_the_same_bits_for_any_number_of_threads(material):
    ends = []
    for threads in (1, 2, 3):
        simulation = two_sheets(material, threads=threads)
        for _ in simulation.run(12):
            pass
        ends.append(bits(simulation.positions))
    assert (ends[0] == ends[1]).all() and (ends[0] == ends[2]).all()


@pytest.mark.parametrize("material", MATERIALS)
def test_reference_backend_goes_the_same_way(material):
    one, other = two_sheets(material), two_sheets(material, backend="reference")
    for _ in range(4):
        report, _ = one.step(), other.step()
    assert report.touches.contacts > 0
    np.testing.assert_allclose(one.positions, other.positions, atol=2e-4)


def test_colors_do_not_depend_on_earlier_contacts():
    """A simulation that starts where another one is goes by the same colors."""
    one = two_sheets()
    for _ in range(5):
        one.step()
    other = two_sheets()
    other.positions, other.velocities = one.positions, one.velocities
    one.step(), other.step()
    touches = [simulation.step().touches for simulation in (one, other)]
    assert len({(touch.contacts, touch.colors, touch.overflow) for touch in touches}) == 1
    assert (bits(one.positions) == bits(other.positions)).all()


def test_where_nothing_touches_visits_are_those_of_the_plan():
    ends = []
    for touch in (False, True):
        simulation = two_sheets(solver=vv.Vivace(touch=touch))
        simulation.step()
        ends.append(bits(simulation.positions))
    assert (ends[0] == ends[1]).all()


def test_contacts_that_find_no_room_are_left_and_projected_after_the_visits(monkeypatch):
    monkeypatch.setenv("VIVACE_DEBUG", "1")
    simulation = two_sheets()
    simulation._sweeps.touches._slots = simulation.plan.coloring.count  # hardly enough for the sheets alone
    simulation._schedule = simulation._prepared()
    overflow = 0
    for report in simulation.run(16):
        overflow += report.touches.overflow
        assert report.touches.colors <= simulation.plan.coloring.count
        assert crossing_pairs(simulation.positions, simulation.model.triangles) == 0
    assert overflow > 100


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(4, 40), st.integers(0, 80), st.sampled_from([3, 6, 64]))
def test_repaired_colors_are_proper_but_for_contacts_that_are_left(seed, count, contacts, room):
    generator = np.random.default_rng(seed)
    edges = np.array([generator.choice(count, 2, replace=False) for _ in range(count)], np.int32)
    graph = vertex_graph([edges], count)
    base = color(graph, "brooks-vizing", 0)
    rows = np.array([generator.choice(count + 1, 4, replace=False) for _ in range(contacts)], np.int32).reshape(-1, 4)
    movable = np.append(generator.random(count) < 0.8, False)
    slots = max(room, base.count, int(graph.degrees.max()) + 1)
    made = colors_with(base, rows, movable, meetings(rows, movable), slots)
    assert made.count <= slots <= max(room, slots_for(base))
    made.validate(base, rows, movable)
    if room == 64:
        assert made.overflow == 0
    again = colors_with(base, rows[~made.left], movable, meetings(rows[~made.left], movable), slots)
    again.validate(base, rows[~made.left], movable)


def test_validation_finds_corners_of_one_color():
    coloring = Coloring(vertex_graph([np.array([[0, 1]], np.int32)], 3), np.array([0, 1, 0], np.int32))
    corners, movable = np.array([[0, 2, 3, 3]], np.int32), np.array([True, True, True, False])
    with pytest.raises(ColoringError, match=r"contact 0, \[0, 2\]"):
        VertexColors(coloring.colors, np.zeros(1, bool)).validate(coloring, corners, movable)
    VertexColors(coloring.colors, np.ones(1, bool)).validate(coloring, corners, movable)


@pytest.fixture(scope="module")
def resting():
    simulation = two_sheets(pins=(3,))
    simulation.step()
    return simulation


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_contact_alone_moves_its_corners_as_the_formula_says(resting, seed):
    """Corner by corner, in their colors; together they move as by one projection, and momentum stays."""
    generator = np.random.default_rng(seed)
    sweeps, count = resting._sweeps, 200
    touches, positions, predicted = sweeps.touches, sweeps.state.positions, sweeps.predicted
    corners = generator.choice(count, (1, 4), replace=False).astype(np.int32)
    share = np.append(generator.uniform(0.1, 1, 2), -generator.uniform(0.1, 1, 2))
    normal = generator.normal(size=3)
    data = np.array([[*share, *(normal / np.linalg.norm(normal)), T]], np.float32)
    before = generator.normal(0, 0.05, (count, 3)).astype(np.float32)
    positions[:count, :3] = before
    predicted[:] = positions
    predicted[:count, :3] += generator.normal(0, 0.02, (count, 3)).astype(np.float32)
    start = predicted.copy()
    touches.contacts.find = lambda: Found(corners, data)
    touches.detect()
    sweeps.advance([touches.touch(color) for color in range(touches.slots)])
    rows = [tuple(tuple(a[corners[:, i]].T) for i in range(4)) for a in (start, positions)]
    move = np.stack(contact_move(*rows, tuple(data.T), np.float32(0.2)), axis=1)
    expected = start.copy()
    expected[corners[0], :3] += (start[corners[0], 3] * data[0, :4])[:, None] * move
    np.testing.assert_allclose(predicted, expected, atol=2e-6)
