"""The main paths run without a socket; `test_sources.py` looks for code that could open one."""

import socket
import urllib.request

import numpy as np
import pytest

import plmcmc
from fuzzing import forbidden_watched
from table_files import run


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
