"""Data goes one way through the package, and imports go the same way."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import vivace
from helpers import fresh_python

ROOT = Path(vivace.__file__).parent
# A module may import from its own layer and from those before it. "vivace" is the package itself, what users import.
LAYERS = (
    ("errors", "checks", "registry", "caching", "progress", "files", "cluster"),
    ("kernels",),
    ("graph", "mesh", "model", "halving"),
    ("constraints", "collision", "coloring"),
    ("batches", "decomposition", "materials", "springs", "system"),
    ("layout", "factor"),
    ("scene", "plan"),
    ("remainder", "state", "contacts", "holds", "parts", "net_parts", "colored_parts", "particle_parts"),
    ("backends",),
    ("solvers",),
    ("budget", "picking", "checkpoint"),
    ("simulation",),
    ("diagnostics", "io"),
    ("recording", "scenes"),
    ("job",),
    ("live",),
    ("vivace",),
    ("bench", "doctor", "terminal"),
    ("cli",),
    ("__main__",),
)
LAYER_OF = {name: number for number, names in enumerate(LAYERS) for name in names}
HEAVY = (
    "mpi4py",
    "pymetis",
    "pyvista",
    "vtkmodules",
    "matplotlib",
    "imageio",
    "typer",
    "networkx",
    "viser",
    "websockets",
)


def module_name(file):
    parts = ("vivace", *file.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(file): file for file in sorted(ROOT.rglob("*.py"))}


def is_for_type_checkers(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def statements(node):
    """All statements that run, those within functions too."""
    for child in ast.iter_child_nodes(node):
        if is_for_type_checkers(child):
            for alternative in child.orelse:
                yield from (alternative, *statements(alternative))
        else:
            yield child
            yield from statements(child)


def imported_modules(name):
    """The modules of the package that a module imports."""
    package = name if FILES[name].name == "__init__.py" else name.rpartition(".")[0]
    for node in statements(ast.parse(FILES[name].read_text())):
        if isinstance(node, ast.Import):
            candidates = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            origin = ".".join(filter(None, (base, node.module)))
            candidates = [
                f"{origin}.{alias.name}" if f"{origin}.{alias.name}" in FILES else origin for alias in node.names
            ]
        else:
            continue
        yield from (candidate for candidate in candidates if candidate in FILES)


def layer_of(name):
    return LAYER_OF[name.split(".")[1] if "." in name else name]


@pytest.mark.parametrize("name", FILES)
def test_module_imports_from_its_own_layer_or_an_earlier_one(name):
    later = [other for other in imported_modules(name) if layer_of(other) > layer_of(name)]
    assert later == []


def test_every_module_has_a_layer_and_every_layer_its_modules():
    assert {name.split(".")[1] if "." in name else name for name in FILES} == set(LAYER_OF)


def test_no_two_modules_import_each_other():
    order = list(TopologicalSorter({name: set(imported_modules(name)) - {name} for name in FILES}).static_order())
    assert sorted(order) == sorted(FILES)


def test_imports_are_found_in_all_their_forms():
    """The test above is only as good as this."""
    assert set(imported_modules("vivace.backends.cpu")) >= {
        "vivace.kernels.region",
        "vivace.kernels.project",
        "vivace.plan",
        "vivace.backends",
    }
    assert set(imported_modules("vivace.scene")) >= {
        "vivace.checks",
        "vivace.constraints",
        "vivace.errors",
        "vivace.mesh",
        "vivace.model",
    }
    assert "vivace.simulation" not in imported_modules("vivace.scene")


def test_importing_vivace_imports_nothing_that_only_pictures_and_the_command_line_need():
    loaded = fresh_python("import sys, vivace; vivace.Simulation, vivace.Camera; print(*sys.modules)").split()
    assert "vivace.simulation" in loaded
    assert [module for module in loaded if module.split(".")[0] in HEAVY or module == "vivace.cli"] == []


def test_the_command_does_not_wait_for_numba():
    loaded = fresh_python("import sys, vivace.cli; print(*sys.modules)").split()
    assert "numba" not in loaded and "scipy" not in loaded


def test_every_public_name_is_there():
    import vivace

    assert all(hasattr(vivace, name) for name in vivace.__all__) and set(vivace.__all__) <= set(dir(vivace))
