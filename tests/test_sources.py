"""What every source file keeps to: rooms have telling names, nothing is unpickled or fetched."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "plmcmc"
SOURCES = sorted(PACKAGE.rglob("*.py"))
EVERY_SOURCE = pytest.mark.parametrize(
    "path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE))
)
FORBIDDEN_ROOMS = {"utils", "util", "common", "core", "helpers", "misc"}
UNSAFE = {"pickle", "cPickle", "dill", "joblib", "shelve", "marshal", "cloudpickle"}
CONNECTING = {"socket", "ssl", "http", "urllib", "ftplib", "smtplib", "xmlrpc", "asyncio"}
CONNECTING |= {"requests", "httpx", "aiohttp", "boto3", "huggingface_hub", "webbrowser"}
FETCHING = ("fetch_", "urlopen", "urlretrieve", "torch.hub", "from_pretrained", "snapshot_download")
# Ray's cluster is reached where the user names its address, and nowhere else.
ASKED_FOR = {"distributed/on_ray.py": ["socket"]}


class TestRooms:
    def test_none_is_a_drawer_for_odds_and_ends(self):
        assert not FORBIDDEN_ROOMS & {path.stem for path in SOURCES}
        assert not FORBIDDEN_ROOMS & {path.parent.name for path in SOURCES}

    def test_each_says_what_goes_in_and_what_comes_out(self):
        for init in PACKAGE.glob("*/__init__.py"):
            words = ast.get_docstring(ast.parse(init.read_text())) or ""
            assert re.search(r"^In: .+ Out: ", words, re.MULTILINE), init


class TestUnpickling:
    @EVERY_SOURCE
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


class TestFetching:
    @EVERY_SOURCE
    def test_no_file_connects(self, path):
        allowed = ASKED_FOR.get(str(path.relative_to(PACKAGE)), [])
        assert connecting(path.read_text()) == allowed

    @pytest.mark.parametrize(
        "line",
        [
            "import socket",
            "from urllib.request import urlopen",
            "torch.hub.load('a', 'b')",
            "datasets.fetch_openml('mnist_784')",
            "def late():\n    import requests",
        ],
    )
    def test_each_of_these_would_be_seen(self, line):
        assert connecting(line)


def unsafe(source):
    """Lines that may run code out of a file."""
    found = [name for name in imported(source) if name in UNSAFE]
    for call in calls(source):
        options = {word.arg: getattr(word.value, "value", None) for word in call.keywords}
        loads_code = ast.unparse(call.func) == "torch.load" and not options.get("weights_only")
        if loads_code or options.get("allow_pickle"):
            found.append(ast.unparse(call))
    return found


def connecting(source):
    """What of a source could reach for another machine."""
    names = [ast.unparse(call.func) for call in calls(source)]
    found = [name for name in imported(source) if name in CONNECTING]
    return found + [name for name in names if any(word in name for word in FETCHING)]


def imported(source):
    """The packages that a source imports, in functions too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").split(".")[0]


def calls(source):
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
