"""The diagram of one proposal: what is drawn is what the kernel computes."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from plmcmc.data import Incomplete
from plmcmc.experiments import experiment_of
from plmcmc.experiments.ledger import Ledger
from plmcmc.experiments.proposal.diagram import TERMS, taken_apart, two_moons
from plmcmc.experiments.reproduce import reproduce
from plmcmc.experiments.study import Place
from plmcmc.flows import RealNVP
from plmcmc.kernels import Metropolis, Perturb
from plmcmc.rng import Streams
from plmcmc.target import FlatAuxiliary, NormalAuxiliary, ProjectedLatentTarget


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    return tmp_path_factory.mktemp("proposal")


def run(output):
    said = []
    report = reproduce("proposal", "smoke", output=output, progress=False, say=said.append)
    return report, said


def target(scale=0.3):
    flow = RealNVP(2, width=8, random_state=1).double()
    with torch.no_grad():
        for weight in flow.parameters():
            weight += 0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    data = Incomplete.of([[np.nan, 0.3]], dtype=torch.float64)
    return ProjectedLatentTarget(flow, data, NormalAuxiliary(scale))


def little(**options):
    """Return the smoke test's study, with a flow that is hardly trained."""
    return replace(experiment_of("proposal", "smoke"), epochs=2, **options)


def test_smoke(output):
    report, _ = run(output)
    # Said of the flow, in text and figure: for how long it was trained, and on what.
    own = json.loads((output / "proposal-smoke" / "numbers.jsonl").read_text().splitlines()[1])
    epochs = own["numbers"]["epochs"]
    assert f"a RealNVP of 6 couplings, trained for {epochs} epochs on 2,000 points" in report
    # Long enough to be two moons: as dense on them as a round blob is nowhere.
    place = Place(output / "proposal-smoke", output)
    found = Ledger(place.output, experiment_of("proposal", "smoke").settings())["proposal"]
    at = [np.searchsorted(found.arrays[name], 0.0) for name in ("up", "across")]
    upper = found.arrays["density"][np.searchsorted(found.arrays["up"], 1.0), at[1]]
    assert upper > 2 * found.arrays["density"][tuple(at)]
    for name in TERMS:
        assert f"| {name} |" in report
    assert (output / "proposal-smoke" / "proposal.png").stat().st_size > 30_000
    again, said = run(output)
    assert again == report
    assert said[0].startswith("proposal (smoke): 0 of 1")


def test_the_same_twice(tmp_path):
    study = little()
    one, same = (study.run("proposal", Place(tmp_path, tmp_path, progress=False)) for _ in "ab")
    assert json.dumps(one.numbers) == json.dumps(same.numbers)


class TestArithmetic:
    """The ratio that is drawn, term by term, is Algorithm 1's own."""

    def drawn(self, own, seed):
        """Return the kernel's log-ratio, and the sum of the terms drawn."""
        kernel = Metropolis(own, Perturb(0.7))
        with torch.no_grad():
            state = kernel.init(torch.tensor([[0.9, -0.1]], dtype=torch.float64))
            proposed, log_ratio = kernel.propose(state, Streams.of_rows(seed, "proposal", 1))
            now, new = (taken_apart(own, part.position) for part in (state, proposed))
        return float(log_ratio), {name: new.terms[name] - now.terms[name] for name in TERMS}

    @pytest.mark.parametrize("seed", range(5))
    def test_equals_the_kernel_s(self, seed):
        log_ratio, terms = self.drawn(target(), seed)
        assert sum(terms.values()) == pytest.approx(log_ratio, abs=1e-10)
        # None of them could be left out.
        assert min(abs(term) for term in terms.values()) > 1e-3

    def test_of_the_report_equals_the_kernel_s(self, tmp_path):
        """The smoke test's flow is trained again, and the kernel asked."""
        study, place = little(), Place(tmp_path, tmp_path, progress=False)
        numbers = study.run("proposal", place).numbers
        flow, _ = study._trained(place)
        own = ProjectedLatentTarget(flow, study._seen(flow), NormalAuxiliary(study.auxiliary))
        ends = [torch.tensor([numbers[name]["latent"]]) for name in ("current", "proposed")]
        with torch.no_grad():
            now, new = (float(own(end.double()).log_density) for end in ends)
        assert numbers["log ratio"] == pytest.approx(new - now, abs=1e-4)
        assert numbers["accept probability"] == pytest.approx(np.exp(min(0, new - now)), abs=1e-4)

    def test_notices_another_auxiliary(self):
        own = target()
        log_ratio, _ = self.drawn(own, 0)
        flat = ProjectedLatentTarget(own.flow, own.data, FlatAuxiliary())
        assert abs(sum(self.drawn(flat, 0)[1].values()) - log_ratio) > 1e-3

    def test_steps_go_where_they_should(self):
        """Decoded, then the observed coordinate put in, then encoded."""
        own = target()
        with torch.no_grad():
            stop = taken_apart(own, torch.tensor([[0.5, -1.0]], dtype=torch.float64))
            decoded = own.flow.to_data(torch.tensor([stop.latent], dtype=torch.float64))[0][0]
            back = own.flow.to_data(torch.tensor([stop.encoded], dtype=torch.float64))[0][0]
        assert stop.decoded == pytest.approx(decoded.tolist())
        assert stop.completion == [stop.decoded[0], 0.3]
        assert back.tolist() == pytest.approx(stop.completion, abs=1e-8)


def test_the_conditional_density_has_mass_one(output):
    found = little().run("proposal", Place(output, output, progress=False))
    across, height = found.arrays["across"], found.arrays["conditional"]
    assert np.trapezoid(height, across) == pytest.approx(1)
    assert found.arrays["density"].shape == (len(found.arrays["up"]), len(across))


def test_moons_are_two_half_circles():
    rows = two_moons(2000, 0.0, 0)
    upper, lower = np.hypot(*rows.T), np.hypot(*(rows - (1.0, 0.5)).T)
    assert np.allclose(np.minimum(np.abs(upper - 1), np.abs(lower - 1)), 0, atol=1e-12)
    inner = np.abs(lower - 1) < 1e-9
    assert 0.45 < inner.mean() < 0.55
    # The upper one bends down, the lower one up.
    assert rows[~inner, 1].min() >= 0
    assert rows[inner, 1].max() <= 0.5
