"""Nothing is fetched: no file of the package can, and the main paths run without a socket."""

import ast
import socket
import urllib.request

import numpy as np
import pytest

import plmcmc
from fuzzing import forbidden_watched
from table_files import run
from test_layers import PACKAGE, SOURCES, imported

CONNECTING = {"socket", "ssl", "http", "urllib", "ftplib", "smtplib", "xmlrpc", "asyncio"}
CONNECTING |= {"requests", "httpx", "aiohttp", "boto3", "huggingface_hub", "webbrowser"}
FETCHING = ("fetch_", "urlopen", "urlretrieve", "torch.hub", "from_pretrained", "snapshot_download")


def connecting(source):
    """What of a source could reach for another machine."""
    tree = ast.parse(source)
    found = [name for name in imported(tree, "plmcmc") if name.split(".")[0] in CONNECTING]
    calls = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return found + [call for call in calls if any(word in call for word in FETCHING)]


# Ray's cluster is reached where the user names its address, and nowhere else.
ASKED_FOR = {"distributed/on_ray.py": ["socket"]}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_file_connects(path):
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
def test_each_of_these_would_be_seen(line):
    assert connecting(line)


@pytest.fixture
def no_sockets(monkeypatch):
    """No socket can be made; and what Python itself sees of attempts is listed."""

    def refuse(*_, **__):
        raise OSError("a socket was asked for")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with forbidden_watched() as seen:
        yield lambda: [event for event in seen if event.startswith(("socket", "urllib"))]


@pytest.mark.usefixtures("tiny")
@pytest.mark.filterwarnings("ignore::plmcmc.ConvergenceWarning")
def test_the_main_paths_run_without_a_socket(data, tmp_path, no_sockets):
    argv = ("impute", data, "-o", tmp_path / "out.csv", "--report", tmp_path / "page.html")
    assert run(*argv, "--effort", "fast") == 0
    flow = plmcmc.RealNVP(3, couplings=2, width=4, random_state=0)
    x = np.random.default_rng(0).normal(size=(80, 3))
    plmcmc.fit_flow(flow, x, epochs=2, random_state=0, progress=False)
    flow = plmcmc.load(plmcmc.save(flow, tmp_path / "flow"))
    x[:, 1] = np.nan
    plmcmc.condition(flow, x[:4]).sample(8, warmup=8, random_state=0)
    assert no_sockets() == []


def test_an_attempt_would_be_seen(no_sockets):
    """Negative control."""
    with pytest.raises(OSError, match="a socket was asked for"):
        urllib.request.urlopen("http://127.0.0.1:9/")
    assert no_sockets() != []
