"""Materials in SI units, against mechanics: springs, bars, strips and plates; and particles tied to points."""

import numpy as np
import pytest

import vivace as vv
from helpers import NOTHING, PHYSICAL, WEIGHTLESS, advance, elastic_energy, random_rotation, settled
from vivace.model import measure

G = 9.81
each_physical_solver = pytest.mark.parametrize("solver", PHYSICAL)


@each_physical_solver
def test_a_hanging_spring_extends_by_weight_over_stiffness(solver):
    mass, stiffness = 0.5, 100.0
    scene = vv.Scene()
    # Two springs side by side.
    mesh = vv.Mesh([[-1e-3, 0, 0], [1e-3, 0, 0], [0, -1, 0]], [[0, 1, 2]])
    body = scene.add_cloth(mesh, material=vv.Springs(stiffness / 2))
    body.pin([0, 1])
    body.masses[:] = mass
    end = settled(scene, solver).positions[2]
    assert -1 - end[1] == pytest.approx(mass * G / stiffness, rel=1e-3)


LONG, DENSITY = 1.0, 1000.0
YOUNG = DENSITY * G * LONG / 2 / 0.01  # so that a bar gets longer by 1 %


@pytest.mark.parametrize("cells", [(1, 4, 1), (2, 8, 2)])
def test_a_hanging_bar_gets_longer_by_its_weight_on_half_its_length(cells):
    """rho g L^2 / (2 E), on a coarse mesh as on a finer one."""
    mesh = vv.Mesh.box(cells, (0.25, LONG, 0.25))
    scene = vv.Scene()
    bar = scene.add_solid(mesh, density=DENSITY, material=vv.Elastic(YOUNG, poisson=0.0))
    bar.pin(np.flatnonzero(mesh.vertices[:, 1] > LONG / 2 - 1e-4))
    low = mesh.vertices[:, 1] < -LONG / 2 + 1e-4
    extension = (mesh.vertices - settled(scene).positions)[low, 1].mean()
    assert extension == pytest.approx(DENSITY * G * LONG**2 / (2 * YOUNG), rel=0.01)


@pytest.mark.parametrize("poisson", [0.0, 0.3, 0.45])
def test_a_stretched_bar_gets_thinner_by_poissons_ratio(poisson):
    mesh = vv.Mesh.box((12, 3, 3), (1.2, 0.3, 0.3))
    scene = vv.Scene(gravity=WEIGHTLESS)
    bar = scene.add_solid(mesh, material=vv.Elastic(1e5, poisson))
    bar.pin(np.flatnonzero(abs(mesh.vertices[:, 0]) > 0.599))
    bar.set_positions(slice(None), mesh.vertices * [1.04, 1, 1])
    middle = abs(mesh.vertices[:, 0]) < 0.31
    found = settled(scene).positions
    strain = np.diag(np.linalg.lstsq(mesh.vertices[middle], found[middle], rcond=None)[0]) - 1
    assert strain[0] == pytest.approx(0.04, rel=0.12)
    assert -strain[1:] / strain[0] == pytest.approx(poisson, rel=0.05, abs=1e-4)


def upright(mesh):
    """A grid turned from lying in the xz plane to hanging down."""
    return vv.Mesh(mesh.vertices[:, [0, 2, 1]] * [1, -1, 1], mesh.triangles)


def of_equal_triangles(columns, rows, spacing):
    """A hanging strip of equilateral triangles: rows of points, every other one moved by half a spacing."""
    x, y = np.meshgrid(np.arange(columns) * spacing, -np.arange(rows) * spacing * 3**0.5 / 2)
    x = x + spacing / 2 * (np.arange(rows) % 2)[:, None]
    ids = np.arange(rows * columns).reshape(rows, columns)
    a, b, c, d = ids[:-1, :-1], ids[:-1, 1:], ids[1:, :-1], ids[1:, 1:]
    odd = (np.arange(rows - 1) % 2 == 1)[:, None, None]
    one = np.where(odd, np.stack([a, d, b], -1), np.stack([a, c, b], -1))
    two = np.where(odd, np.stack([a, c, d], -1), np.stack([b, c, d], -1))
    return vv.Mesh(np.stack([x.ravel(), y.ravel(), 0 * x.ravel()], 1), np.concatenate([one, two]).reshape(-1, 3))


def pulled(mesh, material, strain=0.02):
    """How much longer a hanging strip gets by a weight, as a share of F L / (young thickness width)."""
    height = mesh.vertices[:, 1]
    length = np.ptp(height)
    force = strain * material.young * material.thickness * mesh.areas.sum() / length
    scene = vv.Scene()
    strip = scene.add_cloth(mesh, density=1e-4, material=material)
    low = height < height.min() + 1e-4 * length
    strip.pin(np.flatnonzero(height > height.max() - 1e-4 * length))
    strip.masses[low] += force / G / low.sum()
    return (mesh.vertices - settled(scene, iterations=30).positions)[low, 1].mean() / (strain * length)


CANVAS = vv.Elastic(young=1e6, thickness=5e-4, bend=0.0)


def test_a_strip_of_equal_triangles_extends_by_hookes_law():
    """Force times length over young thickness width: there the net of springs is an isotropic sheet."""
    assert pulled(of_equal_triangles(13, 61, 0.02), CANVAS) == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("diagonals, share", [("alternate", 1 / 1.2), ("same", 1.0)])
def test_a_strip_of_squares_extends_by_hookes_law_as_far_as_its_net_is_a_sheet(diagonals, share):
    """Coarse and fine alike. Crossed diagonals leave no shear: C11 = 1.25, C12 = 0.25, C11 - C12^2 / C11 = 1.2."""
    extensions = [
        pulled(upright(vv.Mesh.grid(columns, 10 * (columns - 1) + 1, (0.1, 1.0), diagonals)), CANVAS)
        for columns in (3, 5)
    ]
    assert extensions == pytest.approx([share] * 2, rel=0.03)


def rolled_energy(mesh, rigidity, radius, degrees):
    """Bending energy of a cloth lying in the xz plane when it is rolled onto a cylinder, from one direction."""
    scene = vv.Scene()
    scene.add_cloth(mesh, material=vv.Elastic(1e5, bend=rigidity))
    bend = next(group for group in scene.build().groups if group.name == "quadratic_bend")
    cosine, sine = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    x, _, z = mesh.vertices.astype(float).T
    along, beside = cosine * x + sine * z, cosine * z - sine * x
    rolled = np.stack([radius * np.sin(along / radius), radius * np.cos(along / radius), beside], axis=1)
    curvature = measure(bend.constraint, rolled[bend.vertices], tuple(bend.rest.T.astype(float)))
    return (curvature**2 / (2 * bend.compliance)).sum()


@pytest.mark.parametrize("diagonals", ["alternate", "same"])
@pytest.mark.parametrize("degrees", [0, 90])
def test_a_grid_rolled_onto_a_cylinder_has_the_bending_energy_of_a_plate(diagonals, degrees):
    """rigidity / 2 * area / radius^2; hinges at the boundary are missing."""
    mesh = vv.Mesh.grid(41, 41, diagonals=diagonals)
    expected = 0.01 / 2 * mesh.areas.sum() / 0.5**2
    assert rolled_energy(mesh, 0.01, 0.5, degrees) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("degrees", [0, 20, 45, 90])
def test_a_sheet_of_equal_triangles_has_the_bending_energy_of_a_plate_in_every_direction(degrees):
    standing = of_equal_triangles(61, 71, 0.02)
    mesh = vv.Mesh(standing.vertices[:, [0, 2, 1]], standing.triangles)
    expected = 0.01 / 2 * mesh.areas.sum() / 0.7**2
    assert rolled_energy(mesh, 0.01, 0.7, degrees) == pytest.approx(expected, rel=0.05)


def test_a_curved_rest_shape_has_no_bending_energy_and_a_rigid_motion_leaves_it_so():
    grid, generator = vv.Mesh.grid(9, 9), np.random.default_rng(0)
    mesh = vv.Mesh(grid.vertices + [[0, 1, 0]] * (grid.vertices[:, :1] ** 2), grid.triangles)
    scene = vv.Scene()
    scene.add_cloth(mesh, material=vv.Springs(100.0, bend=1.0))
    model = scene.build()
    carried = mesh.vertices @ random_rotation(generator) + generator.normal(size=3)
    assert elastic_energy(model, carried) < 1e-8
    assert elastic_energy(model, grid.vertices) > 1e-2


@each_physical_solver
def test_an_attached_particle_is_pulled_softly_to_its_point(solver):
    """It hangs below by weight over stiffness, like the others below theirs."""
    scene, stiffness = vv.Scene(), np.array([20.0, 50.0, 400.0])
    body = scene.add_cloth(vv.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), material=NOTHING)
    body.masses[:] = 0.1, 0.2, 0.3
    points = np.array([[0, 2, 0], [1, 0, 1], [-1, 0, 0.5]])
    body.attach([0, 1, 2], stiffness, points)
    sagged = points - np.outer(body.masses * G / stiffness, [0, 1, 0])
    np.testing.assert_allclose(settled(scene, solver).positions, sagged, atol=1e-3)


@each_physical_solver
def test_a_body_attached_where_it_is_stays_there_however_weak_the_threads_and_far_the_place(solver):
    mesh = vv.Mesh.grid(4, 4).moved((100.0, 0.0, 0.0))
    scene = vv.Scene(gravity=WEIGHTLESS)
    scene.add_cloth(mesh, material=vv.Springs(1e5)).attach([5, 6], 0.01)
    # Single precision: ten million times stiffer springs leave some rounding to the threads.
    np.testing.assert_allclose(advance(scene, 60, solver=solver).positions, mesh.vertices, atol=0.02)


@pytest.mark.parametrize(
    "mistake, message",
    [
        (lambda: vv.Elastic(0.0), "Elastic young is 0.0; it must be above 0"),
        (lambda: vv.Elastic(np.nan), "Elastic young is nan"),
        (lambda: vv.Elastic(1e5, poisson=0.5), "Elastic poisson is 0.5; it must be below 0.5"),
        (lambda: vv.Elastic(1e5, poisson=-0.1), "Elastic poisson is -0.1"),
        (lambda: vv.Elastic(1e5, thickness=0.0), "Elastic thickness is 0.0"),
        (lambda: vv.Elastic(1e5, bend=-1e-6), "Elastic bend is -1e-06"),
        (lambda: vv.Springs(0.0), "Springs stretch is 0.0; it must be above 0"),
        (lambda: vv.Springs(1.0, bend=-1.0), "Springs bend is -1.0"),
        (
            lambda: vv.Scene().add_solid(vv.Mesh.box((1, 1, 1)), material=vv.Springs(1.0), name="jelly"),
            "'jelly': Springs are a material of cloth; a solid takes Elastic, Compliances or Ratios",
        ),
    ],
)
def test_bad_materials_are_named(mistake, message):
    with pytest.raises(vv.InputError, match=message):
        mistake()


def test_stiffness_of_elastic_cloth_is_its_triangles_area_over_the_squared_edge():
    """Van Gelder 1998: young thickness area / length^2, the area of both triangles at the edge."""
    mesh = vv.Mesh([[0, 0, 0], [3, 0, 0], [0, 4, 0], [3, 4, 0]], [[0, 1, 2], [1, 3, 2]])
    scene = vv.Scene()
    scene.add_cloth(mesh, material=vv.Elastic(2e3, poisson=0.25, thickness=0.1))
    stretch, bend = scene.build().groups
    expected = {(0, 1): 6 / 9, (0, 2): 6 / 16, (1, 2): 12 / 25, (1, 3): 6 / 16, (2, 3): 6 / 9}
    stiffness = {tuple(sorted(edge)): 1 / c for edge, c in zip(stretch.vertices.tolist(), stretch.compliance)}
    assert stiffness == pytest.approx({edge: 200 * share for edge, share in expected.items()}, rel=1e-6)
    assert 1 / bend.compliance == pytest.approx(2e3 * 0.1**3 / (12 * (1 - 0.25**2)), rel=1e-6)


def test_stiffness_of_an_elastic_solid_is_lames_times_its_volume():
    mesh = vv.Mesh.box((1, 1, 1), (1.0, 2.0, 3.0))
    scene = vv.Scene()
    scene.add_solid(mesh, material=vv.Elastic(1000.0, poisson=0.25))
    strain, volume = scene.build().groups
    assert (strain.name, volume.name) == ("tet_strain", "tet_volume")
    assert 1 / strain.compliance == pytest.approx(2 * 400.0 * mesh.volumes, rel=1e-6)
    assert 1 / volume.compliance == pytest.approx(3 * 400.0 * mesh.volumes, rel=1e-6)


def test_small_strains_of_an_elastic_solid_cost_what_hookes_law_says():
    """mu |e|^2 + lambda / 2 trace(e)^2 for each cubic meter."""
    young, poisson, mesh = 1000.0, 0.25, vv.Mesh.box((1, 1, 1))
    scene = vv.Scene()
    scene.add_solid(mesh, material=vv.Elastic(young, poisson))
    strain = 1e-3 * np.array([[2.0, 0.5, 0.0], [0.5, -1.0, 0.3], [0.0, 0.3, 1.0]])
    energy = elastic_energy(scene.build(), mesh.vertices @ (np.eye(3) + strain))
    assert energy == pytest.approx(400 * (strain**2).sum() + 400 / 2 * np.trace(strain) ** 2, rel=0.01)


@pytest.mark.parametrize(
    "vertices, options, message",
    [
        ([9], {"stiffness": 1.0}, "attached vertices of 'shirt': row 0 names vertex 9"),
        ([0], {"stiffness": 0.0}, "'shirt': stiffness 0.0 of an attachment must be above 0"),
        ([0], {"stiffness": np.nan}, "stiffness of 'shirt'"),
        ([0, 1], {"stiffness": [1.0, 2.0, 3.0]}, "'shirt'"),
        ([0, 1], {"stiffness": 1.0, "points": [[0, 0, 0]]}, "'shirt': 2 vertices are attached, but 1 points are"),
        ([0], {"stiffness": 1.0, "points": [[0, np.nan, 0]]}, "points of 'shirt': 1 row is not finite"),
    ],
    ids=["vertex", "no stiffness", "NaN stiffness", "too many stiffnesses", "too few points", "NaN point"],
)
def test_bad_attachments_are_named(vertices, options, message):
    body = vv.Scene().add_cloth(vv.Mesh.grid(3, 3), material=vv.Springs(1.0), name="shirt")
    with pytest.raises(vv.InputError, match=message):
        body.attach(vertices, **options)


def test_attaching_a_body_that_runs_is_refused():
    scene = vv.Scene()
    body = scene.add_cloth(vv.Mesh.grid(3, 3), material=vv.Springs(1.0), name="shirt")
    running = vv.Simulation(scene, "pd-direct")
    with pytest.raises(vv.InputError, match="'shirt': attach before the Simulation"):
        body.attach([0], 1.0)
    assert running.step().frame == 1


@pytest.mark.filterwarnings("error")
def test_a_triangle_without_area_is_named():
    mesh = vv.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0.5, 0, 0], [0.5, -1, 0]], [[0, 1, 2], [0, 3, 1], [0, 4, 3]])
    for material in (vv.Elastic(1e5), vv.Springs(1e3, bend=1.0)):
        with pytest.raises(vv.InputError, match="'shirt'"):
            vv.Scene().add_cloth(mesh, material=material, name="shirt")
