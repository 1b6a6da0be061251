"""Contacts: which are found, always all of them in the same order, for how long, and in which colors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vivace as vv
from vivace.contacts import COLORS, Detector, Found, Outlook, find_batches, make_surfaces
from vivace.contacts.cells import into_cells, lists_at, near_boxes
from vivace.contacts.clusters import make_clusters
from vivace.contacts.crossing import crossing_pairs
from vivace.contacts.describe import EDGE, TRIANGLE
from vivace.contacts.distances import edge_distance, nearest_on_triangle
from vivace.contacts.outlook import Ahead
from vivace.contacts.pairs import Pairs
from vivace.contacts.touching import look as look_at
from vivace.diagnostics import crossings
from vivace.kernels.compile import compiled, ints_at

T = 0.02  # thickness


@compiled
def boxes_near(box, addresses, found):
    return near_boxes(box[:3], box[3:], lists_at(addresses), found)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.sampled_from([0.02, 0.3, 5.0]))
def test_cells_find_every_box_that_overlaps_once(seed, count, size):
    generator = np.random.default_rng(seed)
    middles, halves = generator.uniform(-3, 3, (count, 3)), generator.exponential(size, (count, 3))
    boxes = np.concatenate([middles - halves, middles + halves], axis=1).astype(np.float32)
    cells, found = into_cells(boxes), np.empty(4, np.int32)
    low, high = boxes[:, :3], boxes[:, 3:]
    overlap = ((low[:, None] <= high[None]) & (high[:, None] >= low[None])).all(-1)
    for i in range(count):
        near, found = boxes_near(boxes[i], cells.addresses, found)
        assert sorted(found[:near]) == np.flatnonzero(overlap[i]).tolist()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 200), st.integers(1, 4), st.integers(1, 3))
def test_clusters_have_everything_once_and_nothing_of_two_labels(seed, count, labels, arity):
    generator = np.random.default_rng(seed)
    corners, of = generator.integers(0, 50, (count, arity)), generator.integers(0, labels, count)
    clusters = make_clusters(corners, generator.normal(size=(50, 3)), of)
    there = clusters.things >= 0
    assert sorted(clusters.things[there]) == list(range(count))
    np.testing.assert_array_equal(clusters.corners[there], corners[clusters.things[there]])
    for block in clusters.things.reshape(-1, 8):
        assert len(np.unique(of[block[block >= 0]])) == 1
    chosen = generator.random(count) < 0.5
    wanted = (there & chosen[clusters.things]).reshape(-1, 8) @ (1 << np.arange(8))
    np.testing.assert_array_equal(clusters.lanes(chosen), wanted)
    np.testing.assert_array_equal(clusters.lanes(), there.reshape(-1, 8) @ (1 << np.arange(8)))


def test_clusters_are_compact():
    mesh = vv.Mesh.grid(32, 32)
    blocks = make_clusters(mesh.triangles, mesh.vertices, np.zeros(len(mesh.triangles), int)).corners.reshape(-1, 24)
    sizes = np.ptp(mesh.vertices[blocks], axis=1).max(axis=1)
    assert sizes.max() < 5 / 31  # eight triangles are four cells


def surfaces(vertices, triangles, bodies=None):
    of = np.append(np.zeros(len(vertices)) if bodies is None else bodies, -1).astype(np.int32)
    rest = np.concatenate([vertices, [[0, 0, 0]]]).astype(np.float32)
    return make_surfaces(np.unique(triangles), triangles, of, rest, T)


def as_rows(vertices):
    rows = np.zeros((len(vertices) + 1, 4), np.float32)
    rows[:-1, :3], rows[:-1, 3] = vertices, 1
    return rows


BELOW = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 1]], float)
ABOVE = np.array([[0.2, 0.5, 0.2], [0.9, 3.0, 0.2], [0.2, 3.0, 0.9]], float)  # stands on its first corner


def contacts_of(above_start, above_end, by_particles=False, ahead=1):
    """Of two triangles, the second of which moves."""
    both = surfaces(np.concatenate([BELOW, ABOVE]), np.array([[0, 1, 2], [3, 4, 5]]), np.repeat([0, 1], 3))
    detector = Detector(both, T, by_particles)
    start, end = (as_rows(np.concatenate([BELOW, above])) for above in (above_start, above_end))
    return detector.find(start, end, ahead=ahead)


def gap(found, i, rows):
    return float(found.data[i, 4:7] @ (found.data[i, :4] @ rows[found.corners[i], :3]))


@pytest.mark.parametrize("height", [0.5, -0.5])
@pytest.mark.parametrize("way", [0.52, 5.0])
def test_a_point_that_passes_a_triangle_is_found_however_fast_and_kept_on_its_side(height, way):
    flip = np.array([1, np.sign(height), 1])
    found = contacts_of(ABOVE * flip, (ABOVE - [0, way, 0]) * flip)
    of_corner = [i for i in range(len(found)) if found.corners[i].tolist() == [3, 0, 1, 2]]
    assert len(of_corner) == 1
    np.testing.assert_allclose(found.data[of_corner[0]], [1, -0.6, -0.2, -0.2, 0, np.sign(height), 0, T], atol=1e-5)


def test_what_is_not_finite_is_not_looked_at():
    assert len(contacts_of(ABOVE, ABOVE * [1, np.nan, 1])) == 0


def test_what_stays_away_or_leaves_is_not_found():
    assert len(contacts_of(ABOVE, ABOVE - [0, 0.2, 0])) == 0
    assert len(contacts_of(ABOVE - [0, 0.49, 0], ABOVE)) == 0
    assert len(contacts_of(ABOVE, ABOVE + [3, 0, 0])) == 0


def test_particles_meet_only_particles():
    near = ABOVE + BELOW[1] - ABOVE[0] + [0, 0.5 * T, 0]
    found = contacts_of(near, near, by_particles=True)
    assert len(found) == 1 and found.corners[0].tolist()[:2] == [1, 3]
    np.testing.assert_allclose(found.data[0, :4], [1, -1, 0, 0])
    assert len(contacts_of(ABOVE, ABOVE - [0, 5.0, 0], by_particles=True)) == 0


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_triangles_that_cross_at_the_end_were_found_and_their_contacts_would_have_kept_them_apart(seed):
    """Two triangles that do not cross at the start but do at the end of straight ways, on which they hardly turn."""
    generator = np.random.default_rng(seed)
    one, other = generator.normal(size=(2, 3, 3))
    other = other + [0, 4, 0]
    ways = generator.normal(size=(2, 3, 3)) * 0.03 - np.array([0, 4, 0]) * np.array([0, 1])[:, None, None]
    start, end = as_rows(np.concatenate([one, other])), as_rows(np.concatenate([one + ways[0], other + ways[1]]))
    triangles = np.array([[0, 1, 2], [3, 4, 5]])
    both = surfaces(np.concatenate([one, other]), triangles, np.repeat([0, 1], 3))
    if crossing_pairs(start[:-1, :3], triangles) or not crossing_pairs(end[:-1, :3], triangles):
        return
    found = Detector(both, T, False).find(start, end)
    assert min((gap(found, i, end) for i in range(len(found))), default=1) < T


def crumpled(layers=4, side=12, seed=0, gap=1.5):
    """Noisy layers close to each other, and where they go."""
    generator = np.random.default_rng(seed)
    mesh = vv.Mesh.grid(side, side)
    vertices = np.concatenate([mesh.vertices + [0.01 * k, gap * T * k, 0] for k in range(layers)])
    vertices = vertices + generator.normal(0, 0.2 * T, vertices.shape)
    triangles = np.concatenate([mesh.triangles + len(mesh.vertices) * k for k in range(layers)])
    both = surfaces(vertices, triangles, np.repeat(np.arange(layers), len(mesh.vertices)))
    start = as_rows(vertices)
    end = start.copy()
    end[:-1, :3] += generator.normal(0, 0.3 * T, vertices.shape)
    return both, start, end


def test_contacts_and_their_order_do_not_depend_on_threads_or_capacity():
    both, start, end = crumpled()
    found = [Detector(both, T, False).find(start, end, threads) for threads in (1, 2)]
    small = Detector(both, T, False)
    small._on_ways.pairs = {kind: Pairs(capacity=1) for kind in small.kinds}
    found.append(small.find(start, end))
    assert len(found[0]) > 500 and small.times_grown > 0
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].corners, other.corners)
        np.testing.assert_array_equal(found[0].data, other.data)


@compiled
def look(kind, pairs, count, start, end, thickness, corners, data):
    return look_at(kind, ints_at(pairs.ctypes.data), count, start, end, thickness, corners, data)


def every_pair(kind, both, counting):
    """Of things that have no corner in common, and are apart without forces, or of two bodies."""
    if kind == EDGE:
        edges, distance = both.edges[counting], edge_distance
        pairs = [(*edges[i], *edges[j]) for i in range(len(edges)) for j in range(i)]
    else:
        things, distance = (both.triangles if kind == TRIANGLE else both.ends), nearest_on_triangle
        pairs = [(p, *thing) for thing in things for p in both.points[:, 0]]
    rest = [tuple(row) for row in both.rest.astype(np.float64)]
    apart = [pair for pair in pairs if len(set(pair)) == 4]
    return [p for p in apart if both.bodies[p[0]] != both.bodies[p[2]] or distance(*(rest[i] for i in p)) >= T]


def by_looking(kind, pairs, start, end):
    """What the narrow test says of pairs, without clusters, boxes or prisms."""
    whole = np.array(pairs + pairs[-1:] * (-len(pairs) % 8), np.int32)
    corners, data = np.empty((len(pairs), 4), np.int32), np.empty((len(pairs), 8), np.float32)
    count = look(kind, whole, len(pairs), start, end, np.float32(T), corners, data)
    return {told(kind, row) for row in corners[:count].tolist()}


def told(kind, row):
    """A contact of two edges is that of the second and the first."""
    return frozenset([tuple(row[:2]), tuple(row[2:])]) if kind == EDGE else tuple(row)


def found_by(detector, kind):
    chunks = detector._touching[kind]
    rows = [row for count, rows in zip(chunks.counts, chunks.corners.tolist()) for row in rows[:count]]
    assert len({told(kind, row) for row in rows}) == len(rows)
    return {told(kind, row) for row in rows}


@pytest.mark.parametrize("far", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_found_is_what_looking_at_every_pair_finds(far, seed):
    """However far things go: boxes and prisms only spare work."""
    both, start, end = crumpled(layers=3, side=6, seed=seed)
    generator = np.random.default_rng(seed)
    end[:-1, :3] += generator.normal(0, far * T, 3) + generator.normal(0, 0.1 * far * T, (len(end) - 1, 3))
    detector = Detector(both, T, False)
    detector.find(start, end)
    for kind in detector.kinds:
        wanted = by_looking(kind, every_pair(kind, both, detector._edges_that_count(start, end)), start, end)
        assert found_by(detector, kind) == wanted and len(wanted) > 0


def near_sides(generator):
    """A triangle of fifty thicknesses or a sliver, and one whose corner or edge is near a side, a corner or an end."""
    a, b, c = one = generator.normal(size=(3, 3))
    c += generator.choice([0, 0.98]) * (a - c)
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal)
    up = generator.uniform(0.1, 1.3) * T * normal
    beside, within = generator.uniform(-0.07, 0.03, 2), generator.uniform(0, 1)
    if generator.random() < 0.5:
        f, g = (beside[0], within) if generator.random() < 0.5 else beside
        point = a + f * (b - a) + g * (c - a) + up
        return one, point + np.array([np.zeros(3), normal + generator.normal(size=3) * 0.2, normal])
    across = np.cross(normal, b - a) * generator.uniform(0.3, 3) * generator.choice([-1, 1])
    at = a + beside[0] * (b - a) + up
    return one, at + np.array([-beside[1] * across, (1 - beside[1]) * across, across + normal])


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_left_out_near_sides_corners_and_ends(seed):
    """Where the narrow test still says yes, boxes and prisms must not say no."""
    generator, count = np.random.default_rng(seed), 2000
    places = 12 * np.stack(np.unravel_index(np.arange(count), (13, 13, 13)), axis=1)
    vertices = np.concatenate([np.concatenate(near_sides(generator)) + place for place in places])
    triangles = np.arange(6 * count).reshape(-1, 3)
    both, start = surfaces(vertices, triangles, np.arange(6 * count) // 3), as_rows(vertices)
    end = start.copy()
    if seed > 0:
        speeds = T * generator.choice([0, 0.1, 1, 10], (6 * count, 1))
        end[:-1, :3] += speeds * generator.normal(size=(6 * count, 3))
    detector = Detector(both, T, False)
    detector.find(start, end)
    pairs = {kind: [] for kind in detector.kinds}
    for first in range(0, 6 * count, 6):
        one, other = np.arange(first, first + 3), np.arange(first + 3, first + 6)
        for a, b in ((one, other), (other, one)):
            pairs[TRIANGLE] += [(p, *a) for p in b]
        pairs[EDGE] += [(*sorted(np.delete(one, i)), *sorted(np.delete(other, j))) for i in range(3) for j in range(3)]
    for kind in (TRIANGLE, EDGE):
        wanted, found = by_looking(kind, pairs[kind], start, end), found_by(detector, kind)
        assert len(wanted) > 0.1 * count and wanted <= found


@pytest.mark.parametrize("spare", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("by_particles", [False, True])
def test_what_is_found_in_rooms_is_what_a_new_list_finds_in_the_same_order(spare, by_particles):
    """However long rows have been in their rooms, and however large these are: contacts know nothing of the past."""
    both, start, end = crumpled(layers=4, side=8)
    generator, rows = np.random.default_rng(3), len(start) - 1
    detector, listed = Detector(both, T, by_particles), []
    detector._rooms.spare = np.float32(spare * T)
    places, drift = start[:-1, :3].astype(float), np.array([0.3, -0.2, 0.1]) * T
    for frame in range(40):
        here = places + frame * drift + generator.uniform(-0.08, 0.08, (rows, 3)) * T
        if frame % 3 == 0:  # some go elsewhere, and stay there
            places[generator.integers(0, rows, 3)] += generator.normal(0, 2 * T, (3, 3))
        start[:-1, :3], end[:-1, :3] = here, here + drift + generator.normal(0, 0.03 * T, (rows, 3))
        ahead = 2 if spare == 0.6 else 1 + frame % 3
        found = detector.find_in_rooms(start, end, threads=1 + frame % 2, ahead=ahead)
        new = Detector(both, T, by_particles).find(start, end, ahead=ahead)
        np.testing.assert_array_equal(found.corners, new.corners)
        np.testing.assert_array_equal(found.data, new.data)
        listed.append(int(detector._rooms.moved.sum()))
        assert len(found) > (20 if by_particles else 200)
    if spare == 0.6:  # far enough for most to stay
        assert listed[0] == rows and np.median(listed) < 0.02 * rows and any(0 < moved < rows for moved in listed)


@pytest.mark.parametrize("share", [0.01, 0.2, 1.0])
def test_rooms_of_what_has_gone_far_are_small(share):
    """However many go: a list of pairs that is made then is not much longer than a new one."""
    both, start, _ = crumpled(layers=4, side=16)
    generator = np.random.default_rng(0)
    detector, new = Detector(both, T, False), Detector(both, T, False)
    detector.find_in_rooms(start, start)
    for _ in range(3):
        gone = generator.random(len(start) - 1) < share
        start[:-1, :3][gone] += generator.normal(0, 2.0, (gone.sum(), 3))
        detector.find_in_rooms(start, start)
    new.find_in_rooms(start, start)
    count, wanted = (int(d._in_rooms.pairs[TRIANGLE].counts.sum()) for d in (detector, new))
    assert count < 2 * wanted + 1000


def test_rows_that_are_not_finite_leave_their_rooms_and_touch_nothing():
    both, start, end = crumpled()
    detector = Detector(both, T, False)
    whole = detector.find_in_rooms(start, start)
    assert len(detector.find_in_rooms(start, end * np.float32(np.nan))) == 0
    np.testing.assert_array_equal(detector.find_in_rooms(start, start).corners, whole.corners)


def test_pairs_of_this_frame_are_looked_at_again_where_things_stay_near_their_ways():
    """And what comes nearer than its way led, by less than the margin, is still found."""
    both, start, end = crumpled(layers=4, side=8)
    end[:-1, :3] += np.random.default_rng(1).normal(0, 0.3 * T, (len(end) - 1, 3))
    detector = Detector(both, T, False)
    detector.find_for(Ahead(4, 1), start, end)
    later = start + (end - start) * np.float32([2, 2, 2, 0])
    later[:-1, :3] += np.random.default_rng(2).uniform(-0.05, 0.05, (len(end) - 1, 3)) * T
    ways = later, later + (end - start) * np.float32([1, 1, 1, 0])
    detector.find_for(Ahead(0, 1), *ways)
    new = Detector(both, T, False)
    new.find(*ways)
    assert found_by(detector, TRIANGLE) == found_by(new, TRIANGLE) and len(found_by(new, TRIANGLE)) > 200


def ahead_on(ways, substeps=4, frames=1):
    """The outlook in each substep of frames, when points go their ways in each."""
    start = as_rows(np.zeros((len(ways), 3)))
    outlook, ahead = Outlook(np.arange(len(ways))[:, None].astype(np.int32), T), []
    for _ in range(frames):
        outlook.begin(1 / 60)
        here = start
        for _ in range(substeps):
            there = here + as_rows(ways) * np.float32([1, 1, 1, 0])
            ahead.append(outlook.ahead(here, there, 1 / 60 / substeps))
            here = there
    return ahead


def outlook_on(ways, substeps=4, frames=1):
    """For how many substeps contacts are looked for in each."""
    return [one.contacts for one in ahead_on(ways, substeps, frames)]


def test_pairs_are_listed_for_longer_than_contacts_hold_and_anew_where_things_stray():
    generator = np.random.default_rng(0)
    slow, quick = generator.normal(0, 0.01 * T, (1000, 3)), generator.normal(0, 0.05 * T, (1000, 3))
    assert all(one.still for one in ahead_on(slow)[::4]) and not any(one.pairs for one in ahead_on(slow))
    assert not any(one.still for one in ahead_on(quick))
    assert [one.pairs for one in ahead_on(quick, substeps=8)] == [8, 0, 0, 0, 0, 0, 0, 0]
    assert [one.pairs for one in ahead_on(40 * quick)] == [1, 1, 1, 1]
    outlook = Outlook(np.arange(1000)[:, None].astype(np.int32), T)
    outlook.begin(1 / 60)
    start = as_rows(np.zeros((1000, 3)))
    end = start + as_rows(quick) * np.float32([1, 1, 1, 0])
    assert outlook.ahead(start, end, 1 / 480).pairs == 8
    start[:20, 0] += 5 * T
    end[:20, 0] += 5 * T
    assert outlook.ahead(start, end, 1 / 480).pairs == 7


def test_contacts_hold_for_a_frame_where_hardly_anything_moves():
    generator = np.random.default_rng(0)
    slow, fast = generator.normal(0, 0.01 * T, (1000, 3)), generator.normal(0, 2 * T, (1000, 3))
    assert outlook_on(slow, frames=2) == [4, 0, 0, 0] * 2
    assert outlook_on(slow, substeps=1, frames=3) == [1, 1, 1]
    assert outlook_on(fast) == [1, 1, 1, 1]
    assert outlook_on(slow + [9 * T, 0, 0]) == [4, 0, 0, 0]  # all together
    assert outlook_on(3 * slow) == [2, 0, 2, 0]
    one, one_of_many = slow.copy(), generator.normal(0, 0.01 * T, (10_000, 3))
    one[0] = one_of_many[0] = [5 * T, 0, 0]
    assert outlook_on(one) == [1, 1, 1, 1] and outlook_on(one_of_many) == [4, 0, 0, 0]
    assert outlook_on(np.full((10, 3), np.nan)) == [1, 1, 1, 1]


def test_looking_ahead_finds_what_will_touch_later():
    assert len(contacts_of(ABOVE, ABOVE - [0, 0.2, 0])) == 0
    assert len(contacts_of(ABOVE, ABOVE - [0, 0.2, 0], ahead=3)) > 0


def test_a_crowd_is_found_whole():
    """More pairs at once than there is room for at first, and more contacts."""
    both, start, end = crumpled(layers=24, side=8, gap=0.1)
    detector = Detector(both, T, False)
    found, again = detector.find(start, end), detector.find(start, end)
    assert len(found) > 50_000 and detector.times_grown > 0
    np.testing.assert_array_equal(found.corners, again.corners)
    assert (np.sort(found.corners, axis=1)[:, 1:] != np.sort(found.corners, axis=1)[:, :-1]).all()


def test_shares_cancel_and_directions_are_unit_vectors():
    both, start, end = crumpled()
    found = Detector(both, T, False).find(start, end)
    np.testing.assert_allclose(found.data[:, :4].sum(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(found.data[:, 4:7], axis=1), 1, rtol=1e-5)
    assert min(gap(found, i, start) for i in range(len(found))) >= -1e-6
    assert (found.data[:, 0] == 1).any() and (found.data[:, 0] < 1).any()


def test_mesh_neighbors_and_what_overlaps_at_rest_do_not_fire():
    mesh = vv.Mesh.grid(6, 6, size=(0.05, 0.05))  # edges of 1 cm, thickness 2 cm
    flat = surfaces(mesh.vertices, mesh.triangles)
    rows = as_rows(mesh.vertices)
    for by_particles in (False, True):
        found = Detector(flat, T, by_particles).find(rows, rows)
        assert all(gap(found, i, rows) >= T - 1e-6 for i in range(len(found)))
        assert len(found) < 36 * 12  # only what is about as far away as the thickness


def test_beyond_its_end_a_surface_keeps_points_away_from_its_edge():
    mesh = vv.Mesh.grid(3, 3, size=(0.2, 0.2))
    both = np.concatenate([mesh.vertices, mesh.vertices + [0.2 + 0.7 * T, 0, 0]])
    triangles = np.concatenate([mesh.triangles, mesh.triangles + 9])
    rows = as_rows(both)
    found = Detector(surfaces(both, triangles, np.repeat([0, 1], 9)), T, False).find(rows, rows)
    assert len(found) > 0
    np.testing.assert_allclose(np.abs(found.data[:, 4:7]), [[1, 0, 0]] * len(found), atol=1e-4)
    gaps = [gap(found, i, rows) for i in range(len(found))]
    assert min(gaps) == pytest.approx(0.7 * T, rel=1e-3)


def test_ribbons_that_meet_side_by_side_stay_side_by_side():
    scene = vv.Scene(gravity=(0, -9.81, 0))
    for i in range(2):
        ribbon = vv.Mesh.grid(12, 4, size=(0.5, 0.12)).moved((0, 0.0101, -0.09 + 0.18 * i))
        scene.add_cloth(ribbon, density=0.5, material=vv.Elastic(young=4e5, thickness=3e-3, bend=1e-3), name=str(i))
    scene.add_collider(vv.Plane(), friction=0.0, margin=0.01)
    scene.self_collision(T)
    simulation = vv.Simulation(scene, iterations=4, substeps=4)
    simulation.velocities = np.repeat([[0, 0, 0.5], [0, 0, -0.5]], 48, axis=0)
    for _ in range(40):
        simulation.step()
        z = simulation.positions[:, 2]
        assert z[:48].max() < z[48:].min() - 0.8 * T
    assert crossings(simulation) == 0


def test_edges_count_at_ends_where_they_are_sharp_and_where_they_are_pressed():
    mesh = vv.Mesh.grid(5, 5, size=(0.4, 0.4))
    nothing = np.zeros((0, 4), np.int32), np.zeros((0, 8), np.float32)

    def counting(vertices, contacts=nothing):
        flat, rows = surfaces(mesh.vertices, mesh.triangles), as_rows(vertices)
        in_chunks = np.array([len(contacts[0])]), contacts[0][None], contacts[1][None]
        return flat.edges, flat.hinges.counting(flat.edges, *in_chunks, rows, rows, np.float32(T))

    edges, counts = counting(mesh.vertices)
    at_rim = np.abs(mesh.vertices[:, [0, 2]]).max(axis=1) > 0.19
    same_side = (np.abs(mesh.vertices[edges][:, 0] - mesh.vertices[edges][:, 1]) < 1e-9)[:, [0, 2]].any(axis=1)
    np.testing.assert_array_equal(counts, at_rim[edges].all(axis=1) & same_side)
    folded = mesh.vertices * [1, 0, 1] + np.maximum(mesh.vertices[:, [0]], 0) * [0, 1.5, 0]
    on_fold = (np.abs(mesh.vertices[edges][:, :, 0]) < 1e-9).all(axis=1)
    np.testing.assert_array_equal(counting(folded)[1], counts | on_fold)
    pressed = np.array([[6, 12, 13, 18]], np.int32), np.array([[1, -0.2, -0.4, -0.4, 0, 1, 0, T]], np.float32)
    assert counting(mesh.vertices, pressed)[1][(edges == 12).any(axis=1)].all()


def test_first_fit_gives_proper_colors_and_averages_only_what_finds_none():
    both, start, end = crumpled(layers=8, gap=0.1)
    found = Detector(both, T, False).find(start, end)
    movable = start[:, 3] > 0
    batches = find_batches(found, movable)
    batches.validate(movable)
    assert batches.sizes.sum() == len(found) and batches.colors == COLORS and batches.overflow > 0
    crowd = Found(np.tile(np.array([[0, 1, 2, 3]], np.int32), (COLORS + 5, 1)), np.zeros((COLORS + 5, 8), np.float32))
    batches = find_batches(crowd, movable)
    assert batches.colors == COLORS and batches.overflow == 5
    batches.validate(movable)
    with pytest.raises(vv.InputError, match="share a particle"):
        find_batches(crowd, np.zeros_like(movable)).validate(movable)
