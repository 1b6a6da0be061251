"""The documentation tells the truth: its recipes run, its links lead somewhere, its map of folders is complete."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import vivace
from vivace import collision, coloring, constraints, io, solvers

ROOT = Path(__file__).parents[1]
PACKAGE = Path(vivace.__file__).parent
README, EXTENDING, ARCHITECTURE = ROOT / "README.md", ROOT / "docs" / "extending.md", ROOT / "docs" / "architecture.md"
LIVE = ROOT / "docs" / "live.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?P<language>\w*)(?: file=(?P<file>\S+))?[^\n]*\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")


@dataclass(frozen=True)
class Block:
    """A piece of code in a page; `file` is the name it is to be saved under, if any."""

    page: Path
    line: int
    file: str | None
    code: str

    def __str__(self):
        return f"{self.page.name} line {self.line}"

    def run(self, names):
        # As many empty lines before it as in the page: a traceback then names the page's line.
        exec(compile("\n" * self.line + self.code, str(self.page), "exec"), names)


def blocks(page, language="python"):
    """The blocks of one language, in their order."""
    text = page.read_text() if page.exists() else ""
    return [
        Block(page, text[: found.start()].count("\n") + 1, found["file"], found["body"])
        for found in FENCE.finditer(text)
        if found["language"] == language
    ]


RECIPES = blocks(EXTENDING)
FILES = {block.file: block for block in RECIPES if block.file}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to work in that Python imports from; what was imported there is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize("block", [block for block in RECIPES if not block.file], ids=str)
def test_recipe_runs(block, folder):
    for earlier in RECIPES:
        if earlier.file and earlier.line < block.line:
            (folder / earlier.file).write_text(earlier.code)
    block.run({"__name__": "recipe"})


@pytest.mark.parametrize("page", [README, LIVE], ids=lambda page: page.name)
def test_code_of_a_page_runs(page, folder):
    """From top to bottom; a block may go on where the one before it ended."""
    names = {"__name__": "readme"}
    assert blocks(page)
    for block in blocks(page):
        block.run(names)


@pytest.mark.parametrize(
    ("package", "file", "known", "name"),
    [
        (constraints, "sag.py", constraints.constraints, "sag"),
        (coloring, "least_used.py", coloring.algorithms, "least-used"),
        (solvers, "symmetric.py", solvers.solvers, "symmetric-gauss-seidel"),
        (collision, "link.py", collision.colliders, "Link"),
        (io, "point_cache.py", io.writers, ".pc2"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.endswith(".py") else "",
)
def test_recipe_in_the_folder_of_its_kind_is_found_by_name(package, file, known, name, folder, monkeypatch):
    assert name not in known()
    (folder / file).write_text(FILES[file].code)
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    assert name in known()


def test_every_recipe_is_used():
    assert len(FILES) == 6 and len(RECIPES) == 2 * len(FILES)


def headings(page):
    """The anchors of a page, as GitHub makes them."""
    text = FENCE.sub("", page.read_text())
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_pictures_exist(page):
    text = FENCE.sub("", page.read_text())
    targets = [one or other for one, other in LINK.findall(text)]
    for target in targets:
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        place = (page.parent / file).resolve() if file else page
        assert place.exists(), f"{page.name} points to {target}"
        if anchor and place.suffix == ".md":
            assert anchor in headings(place), f"{page.name} points to {target}, which has no such heading"


def mapped_files():
    """The paths that the folder map names, from its indentation."""
    maps = [block.code for block in blocks(ARCHITECTURE, "text") if block.code.startswith("src/vivace/")]
    assert len(maps) == 1
    above, found = [], []
    for line in maps[0].splitlines():
        depth, name = (len(line) - len(line.lstrip())) // 2, line.split()[0]
        above[depth:] = [name.rstrip("/")]
        found.append("/".join(above))
    return found


def test_folder_map_names_only_what_exists():
    assert [path for path in mapped_files() if not (ROOT / path).exists()] == []


def test_folder_map_names_every_module():
    modules = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py") if file.name != "__init__.py"}
    assert modules - {path.removeprefix("src/vivace/") for path in mapped_files()} == set()
