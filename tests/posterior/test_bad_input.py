"""What users get wrong: each time an error or a warning that names the row and what to do."""

import warnings

import numpy as np
import pytest
import torch

import plmcmc
from plmcmc import methods
from plmcmc.chains import FromObserved
from plmcmc.data import DataError
from plmcmc.flows import BrokenFlow, Linear
from plmcmc.posterior import BiasedWarning, ConvergenceWarning, StuckWarning
from plmcmc.target import NormalAuxiliary
from toys import Handing, Watched, correlated, quiet

NAN, INF = np.nan, np.inf


def table():
    x = np.random.default_rng(0).normal(size=(6, 3))
    x[:, 1] = NAN
    return x


class TestArrays:
    def refused(self, x, *words, observed=None, flow=None):
        with pytest.raises(DataError) as error:
            plmcmc.condition(flow or correlated(), x, observed=observed)
        for word in words:
            assert word in str(error.value)

    def test_nan_where_observed(self):
        x = table()
        seen = np.ones(x.shape, dtype=bool)
        seen[:4, 1] = False
        self.refused(x, "row 4, column 1 (and 1 more)", "mark it missing", observed=seen)

    @pytest.mark.parametrize("value", [INF, -INF])
    def test_infinity(self, value):
        x = table()
        x[3, 2] = value
        self.refused(x, "infinite at row 3, column 2", "mark it missing")

    def test_infinity_that_is_not_observed_is_not_read(self):
        x = table()
        x[:, 1] = INF
        with quiet():
            posterior = plmcmc.condition(correlated(), x, observed=np.isfinite(x))
            draws = posterior.sample(4, method="pcn", random_state=0)
        assert np.isfinite(draws.values).all()

    def test_too_large_for_the_flow(self):
        x = table()
        x[5, 0] = 1e300
        self.refused(x, "too large for torch.float32 at row 5, column 0", flow=Linear(3))

    def test_ragged_rows(self):
        x = [[1.0, NAN, 3.0], [1.0, NAN, 3.0], [1.0, NAN]]
        self.refused(x, "row 0 has 3 values, row 2 has 2")

    @pytest.mark.parametrize("columns", [1, 2, 4])
    def test_another_width_than_the_flows(self, columns):
        x = np.full((2, columns), NAN)
        self.refused(x, "the flow's rows have shape (3,)", f"those of x have ({columns},)")

    def test_another_shape_of_rows(self):
        self.refused(np.full((2, 3, 3), NAN), "shape (3,)", "(3, 3)")

    def test_a_single_row_without_its_axis(self):
        self.refused(np.array([1.0, NAN, 0.0]), "got shape (3,)", "x[None]")

    @pytest.mark.parametrize("shape", [(6, 2), (5, 3), (6,), (3, 6), (6, 3, 1)])
    def test_observed_of_another_shape(self, shape):
        seen = np.ones(shape, dtype=bool)
        self.refused(table(), "x's shape (6, 3)", f"got {shape}", observed=seen)

    @pytest.mark.parametrize("kind", [int, float, np.uint8, object])
    def test_observed_of_another_type(self, kind):
        seen = np.ones((6, 3)).astype(kind)
        self.refused(table(), "observed must be boolean", np.dtype(kind).name, observed=seen)

    @pytest.mark.parametrize("kind", [int, np.uint8, bool])
    def test_integers(self, kind):
        x = np.ones((6, 3)).astype(kind)
        self.refused(x, "floating", np.dtype(kind).name, "x.astype(float)")
        self.refused(torch.as_tensor(x), "floating")

    def test_text_and_objects(self):
        self.refused([[1.0, None, 2.0]], "None into NaN")
        self.refused([["a", "b", "c"]], "x must be a floating array")

    @pytest.mark.parametrize("shape", [(0, 3), (6, 0), (0, 0)])
    def test_empty(self, shape):
        self.refused(np.empty(shape), "x is empty", str(shape))

    def test_a_column_or_row_of_a_table(self):
        pandas = pytest.importorskip("pandas")
        for kind in ("float64", "Float64"):
            self.refused(pandas.Series([1.0, NAN, 2.0], dtype=kind), "got shape (3,)", "x[None]")

    @pytest.mark.skipif(np.longdouble == np.float64, reason="no wider numbers here")
    def test_numbers_wider_than_a_flow_computes_in(self):
        self.refused(table().astype(np.longdouble), "no flow computes in", "x.astype(float)")

    def test_numbers_that_are_complex(self):
        self.refused(np.ones((2, 3), dtype=complex), "floating", "complex128")


class Altered(torch.nn.Module):
    """A good flow with one of its answers changed."""

    def __init__(self, **changes):
        super().__init__()
        self.flow = correlated()
        self.changes = changes

    def __getattr__(self, name):
        if name in ("to_latent", "to_data", "latent_log_prob", "latent_sample"):
            good = getattr(self.flow, name)
            change = self.changes.get(name)
            return good if change is None else lambda *a: change(good(*a), *a)
        return super().__getattr__(name)


def shifted(answer, *_):
    return answer[0] + 1.0, answer[1]


def nothing_but_nan(answer, *_):
    return answer[0] * NAN, answer[1]


def nan_at_row_of_7(answer, x):
    """Fails where the first column is 7, as a network may on a row unlike those it has seen."""
    return answer[0], torch.where(x[:, 0] == 7, NAN, answer[1])


class TestFlows:
    def test_unaltered_it_works(self):
        with quiet():
            draws = plmcmc.condition(Altered(), table()).sample(4, method="pcn", random_state=0)
        assert np.isfinite(draws.values).all()

    @pytest.mark.parametrize("name", ["to_latent", "to_data"])
    def test_encode_and_decode_disagree(self, name):
        with pytest.raises(BrokenFlow, match=r"to_data undoes to_latent: .* at row \d"):
            plmcmc.condition(Altered(**{name: shifted}), table())

    @pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
    def test_numbers_too_coarse_to_decide_by(self, kind):
        with pytest.raises(BrokenFlow, match=rf"computes in {kind}, .* call flow.float\(\)"):
            plmcmc.condition(correlated().to(kind), table())

    def test_inference_mode(self):
        posterior = plmcmc.condition(correlated(), table())
        asked = (
            lambda: plmcmc.condition(correlated(), table()),
            lambda: posterior.sample(4, random_state=0),
            lambda: posterior.log_evidence(2, random_state=0),
        )
        for ask in asked:
            with torch.inference_mode(), pytest.raises(RuntimeError, match="inference_mode is on"):
                ask()

    def test_log_dets_disagree(self):
        def wrong(answer, *_):
            return answer[0], answer[1] + 3

        with pytest.raises(BrokenFlow, match="the two log-dets cancel"):
            plmcmc.condition(Altered(to_data=wrong), table())

    @pytest.mark.parametrize(
        ("name", "words"),
        [
            ("to_latent", r"to_latent is NaN or infinite at row 0"),
            ("to_data", r"own samples are NaN or infinite: to_data overflows"),
        ],
    )
    def test_nan_everywhere(self, name, words):
        with pytest.raises(BrokenFlow, match=words):
            plmcmc.condition(Altered(**{name: nothing_but_nan}), table())

    @pytest.mark.parametrize(
        "method",
        [
            "metropolis",
            "pcn",
            "elliptical",
            "mala",
            "data-mala",
            "data-hmc",
            "data-metropolis",
            "gibbs",
        ],
    )
    def test_nan_for_one_row_names_it(self, method):
        x = table()
        x[[2, 4], 0] = 7.0
        posterior = plmcmc.condition(Altered(to_latent=nan_at_row_of_7), x)
        with pytest.raises(BrokenFlow, match=r"chains of rows 2, 4 start: check") as error:
            posterior.sample(4, chains=3, method=method, random_state=0)
        assert "choose a different start" in str(error.value)

    def test_the_name_is_the_row_of_x_in_later_chunks(self):
        x = np.full((200, 3), NAN)
        x[::3] = 1.0
        x[:, 2] = 0.0
        x[154, 0] = 7.0
        posterior = plmcmc.condition(Altered(to_latent=nan_at_row_of_7), x)
        with pytest.raises(BrokenFlow, match=r"row 154 start"):
            posterior.sample(4, chains=2, method="pcn", chunk_rows=64, random_state=0)

    def test_no_methods_at_all(self):
        with pytest.raises(TypeError, match="to_latent, to_data, latent_log_prob"):
            plmcmc.condition(torch.nn.Linear(3, 3), table())

    def test_the_check_can_be_left_out(self):
        flow = Watched(correlated())
        plmcmc.condition(flow, table(), check=False)
        unchecked = sum(flow.calls.values())
        plmcmc.condition(flow, table())
        assert sum(flow.calls.values()) > 2 * unchecked
        assert plmcmc.condition(Altered(to_latent=shifted), table(), check=False)


def warned(kind, method, x, *, draws=30, flow=None, **options):
    """The message of the one warning of this kind that sampling gives, and where it points."""
    posterior = plmcmc.condition(flow or correlated(), x)
    options = {"chains": 3, "random_state": 0} | options
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior.sample(draws, method=method, **options)
    (found,) = [w for w in caught if w.category is kind]
    # The caller's line, not one inside plmcmc.
    assert found.filename == __file__
    return str(found.message)


class Picky(Handing):
    """A flow that is fine wherever it is asked, but for moves of rows whose first column is 7."""

    def __init__(self):
        super().__init__(correlated())
        self.asked = 0

    def to_latent(self, x):
        z, log_det = self.flow.to_latent(x)
        self.asked += 1
        # The first three encodings of a run are its start.
        return z, torch.where((x[:, 0] == 7) & (self.asked > 3), NAN, log_det)


class TestWarnings:
    def test_a_chain_that_never_accepts(self):
        x = table()
        hopeless = methods.Metropolis(perturb=1e4, resample=None, auxiliary=NormalAuxiliary(1e-3))
        message = warned(StuckWarning, hopeless, x)
        assert message.startswith("rows 0, 1, 2, 3, 4, 5: a chain never accepted")
        assert "smaller steps, a wider auxiliary, or another method" in message

    @pytest.mark.parametrize(("draws", "thin", "told"), [(5, 10, True), (5, 1, False)])
    def test_steps_count_not_draws(self, draws, thin, told):
        """A few draws far apart took many proposals; a few side by side may all be rejected."""
        hopeless = methods.Metropolis(perturb=1e4, resample=None, auxiliary=NormalAuxiliary(1e-3))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            plmcmc.condition(correlated(), table()).sample(
                draws, thin=thin, method=hopeless, random_state=0
            )
        kinds = {own.category for own in caught}
        assert (StuckWarning in kinds) == told
        assert ConvergenceWarning in kinds

    def test_only_the_rows_that_are_stuck_are_named(self):
        x = table()
        x[3, 0] = 7.0
        flow = Picky()
        posterior = plmcmc.condition(flow, x)
        flow.asked = 0
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            posterior.sample(
                60,
                method=methods.CrankNicolson(0.5, auxiliary=NormalAuxiliary(1.0)),
                random_state=0,
            )
        messages = {w.category: str(w.message) for w in caught}
        assert messages[StuckWarning].startswith("row 3: a chain never")
        assert "(worst inf at row 3, column 1)" in messages[ConvergenceWarning]

    def test_unconverged_chains(self):
        x = table()
        x[4] = 1.0
        slow = methods.CrankNicolson(step=0.001)
        message = warned(ConvergenceWarning, slow, x)
        assert message.startswith("rows 0, 1, 2, 3, 5: split R-hat exceeds 1.05 for 5 of 5")
        assert "increase thin or draws (now 30), then warmup, or try another method" in message
        assert "CrankNicolson(step=0.001" in message

    def test_many_rows_are_not_all_listed(self):
        x = np.full((25, 3), NAN)
        message = warned(ConvergenceWarning, methods.CrankNicolson(step=0.001), x)
        assert message.startswith("rows 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 15 more: ")

    def test_the_worst_entry_is_named(self):
        x = table()
        x[:, 0] = NAN
        posterior = plmcmc.condition(correlated(), x)
        with pytest.warns(ConvergenceWarning) as caught:
            draws = posterior.sample(
                40, method=methods.CrankNicolson(step=0.02), chains=3, random_state=0
            )
        rhat = np.where(draws.observed, -1, draws.rhat())
        row, column = np.unravel_index(rhat.argmax(), rhat.shape)
        expected = f"(worst {rhat.max():.3g} at row {row}, column {column})"
        assert expected in str(caught[0].message)

    def test_few_draws_may_differ_by_chance(self):
        posterior = plmcmc.condition(correlated(), table())
        with pytest.warns(ConvergenceWarning, match=r"Of so few draws per chain \(5\) .* chance"):
            posterior.sample(5, random_state=0)
        # Chains that stand still are no chance, however few their draws.
        still = methods.CrankNicolson(step=1e-9, auxiliary=NormalAuxiliary(1.0))
        with pytest.warns(ConvergenceWarning, match="have not converged"):
            posterior.sample(5, method=still, random_state=0)

    def test_a_biased_method(self):
        message = warned(BiasedWarning, "data-ula", table())
        assert "data-ula" in message
        assert "is biased" in message

    def test_too_few_draws_to_judge(self):
        message = warned(ConvergenceWarning, "pcn", table(), draws=3)
        assert "R-hat needs 4 draws per chain, but only 3 were requested" in message

    @pytest.mark.filterwarnings("error")
    def test_chains_that_converge_say_nothing(self):
        """Negative control. A turn by a uniform angle forgets at once."""
        x = np.full((3, 3), NAN)
        plmcmc.condition(correlated(), x).sample(1000, method="elliptical", random_state=0)

    def test_a_start_from_nothing_observed(self):
        posterior = plmcmc.condition(correlated(), np.full((2, 3), NAN))
        with pytest.raises(DataError, match=r"rows 0, 1: .* start from Unconditional"):
            posterior.sample(4, method="pcn", start=FromObserved())
