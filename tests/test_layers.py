"""Rooms import downwards; nothing heavy waits at the door; nothing is unpickled."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "plmcmc"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
FORBIDDEN_ROOMS = {"utils", "util", "common", "core", "helpers", "misc"}
# What the library may not load on its way in: each is imported inside the function that needs it.
HEAVY = {"arviz", "arviz_stats", "matplotlib", "pandas", "rich", "sklearn", "zuko"}
HEAVY |= {"FrEIA", "flowjax", "jax", "nflows", "normflows", "pyro"}
UNSAFE = {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal", "cloudpickle"}


def layers():
    """The contract's layers, top to bottom, each a set of rooms."""
    (contract,) = SETTINGS["contracts"]
    return [{part.strip(" ()") for part in layer.split("|")} for layer in contract["layers"]]


def rooms():
    found = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    return found | {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}


def room_of(path):
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(tree, package):
    """The full names of what a syntax tree imports, in functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base]).rstrip(".")
            yield from (f"{base}.{alias.name}" for alias in node.names)


def upward_imports(name, room, source):
    """What a file of a room imports that does not lie below it."""
    depth = {each: level for level, layer in enumerate(layers()) for each in layer}
    wrong = []
    for target in imported(ast.parse(source), f"plmcmc.{room}"):
        parts = target.split(".")
        # Dunders such as plmcmc.__version__ are the package's own, not a room's.
        if parts[0] != "plmcmc" or len(parts) < 2 or parts[1] == room or "__" in parts[1]:
            continue
        if depth.get(parts[1], -1) <= depth[room]:
            wrong.append(f"{name} imports {target}")
    return wrong


SOURCES = sorted(PACKAGE.rglob("*.py"))
# Commands and what fills files load what they need when called; what users import may not.
CALLED = {"cli", "experiments", "tables", "distributed"}
LIBRARY = [path for path in SOURCES if not CALLED & set(path.relative_to(PACKAGE).parts)]
# An estimator is a subclass of scikit-learn's; its room is loaded when it is asked for.
ESTIMATORS = {"imputation/imputer.py": {"sklearn"}}
ROOM_SOURCES = [path for path in SOURCES if path.parent != PACKAGE or path.name[:2] != "__"]


class TestLayers:
    def test_import_linter_agrees(self):
        pytest.importorskip("importlinter")
        from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

        assert lint_imports(str(ROOT / "pyproject.toml"), no_cache=True) == EXIT_STATUS_SUCCESS

    def test_no_file_imports_upwards(self):
        wrong = [
            fault
            for path in ROOM_SOURCES
            for fault in upward_imports(path.name, room_of(path), path.read_text())
        ]
        assert wrong == []

    @pytest.mark.parametrize(
        "line",
        [
            "from plmcmc.posterior import condition",
            "import plmcmc.chains.run",
            "from plmcmc import cli",
            "from ..training import fit_flow",
            "def late():\n    from plmcmc.target import Point",
            "from plmcmc.adapters import adapt",
            # From the front door, which is no room.
            "from plmcmc import condition",
            "from plmcmc.data import DataError",
        ],
    )
    def test_each_of_these_would_be_seen(self, line):
        """Negative control, in a room of the lowest layer but one."""
        assert upward_imports("made_up.py", "flows", line)

    @pytest.mark.parametrize(
        "line",
        ["from plmcmc.rng import Streams", "from plmcmc.flows.base import total", "import torch"],
    )
    def test_downwards_and_at_home_is_allowed(self, line):
        assert not upward_imports("made_up.py", "flows", line)

    def test_every_room_has_its_layer(self):
        placed = set().union(*layers())
        assert rooms() <= placed
        optional = {
            part for layer in SETTINGS["contracts"][0]["layers"] for part in layer.split("|")
        }
        needed = {part.strip() for part in optional if "(" not in part}
        assert needed <= rooms()

    def test_no_room_and_no_file_is_a_drawer_for_odds_and_ends(self):
        assert not FORBIDDEN_ROOMS & {path.stem for path in SOURCES}
        assert not FORBIDDEN_ROOMS & {path.parent.name for path in SOURCES}

    def test_every_room_says_what_goes_in_and_what_comes_out(self):
        for init in PACKAGE.glob("*/__init__.py"):
            words = ast.get_docstring(ast.parse(init.read_text())) or ""
            assert words.startswith("In: "), init
            assert "Out: " in words, init


def top_level_imports(path):
    """What loading a file loads, leaving out what only type checkers read."""
    nodes = [
        node
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    return {name.split(".")[0] for node in nodes for name in imported(node, "plmcmc")}


class TestFiles:
    @pytest.mark.parametrize("path", LIBRARY, ids=lambda path: str(path.relative_to(PACKAGE)))
    def test_heavy_packages_are_imported_where_they_are_needed(self, path):
        allowed = ESTIMATORS.get(str(path.relative_to(PACKAGE)), set())
        assert not top_level_imports(path) & HEAVY - allowed

    @pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
    def test_nothing_is_unpickled(self, path):
        assert unsafe(path.read_text()) == []

    @pytest.mark.parametrize(
        "line",
        [
            "import pickle",
            "from pickle import loads",
            "torch.load(path)",
            "torch.load(path, weights_only=False)",
            "np.load(path, allow_pickle=True)",
        ],
    )
    def test_each_of_these_would_be_seen(self, line):
        assert unsafe(line)

    def test_reading_weights_only_is_allowed(self):
        assert not unsafe("torch.load(path, weights_only=True)")


def unsafe(source):
    """Lines that may run code out of a file."""
    tree = ast.parse(source)
    found = [name for name in imported(tree, "plmcmc") if name.split(".")[0] in UNSAFE]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        options = {word.arg: getattr(word.value, "value", None) for word in node.keywords}
        if options.get("allow_pickle"):
            found.append(ast.unparse(node))
        if ast.unparse(node.func) == "torch.load" and options.get("weights_only") is not True:
            found.append(ast.unparse(node))
    return found
