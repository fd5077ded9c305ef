"""Draws made up by hand, and what they say of themselves."""

import json
import sys
import types
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

import plmcmc
from plmcmc import statistics
from plmcmc.data import DataError
from plmcmc.data.frames import Labels
from plmcmc.posterior import Draws
from toys import correlated, quiet, same_bits

# Two rows of two columns; (0, 1), (1, 0) and (1, 1) are missing.
OBSERVED = np.array([[True, False], [False, False]])


def made_up(chains=2, draws=50, *, observed=OBSERVED, dtype=np.float64, seed=0):
    source = np.random.default_rng(seed)
    values = source.normal(size=(chains, draws, *observed.shape)).astype(dtype)
    values[:, :, observed] = 1 / 3
    acceptance = np.full((chains, len(observed)), 0.25)
    return Draws(values, observed, acceptance, 120, 20, True, "Elliptical()", 7)


def labelled():
    return replace(made_up(), labels=LABELS)


class TestStatistics:
    def test_mean_by_hand(self):
        values = np.array([[[[1.0, 2.0]], [[1.0, 4.0]]], [[[1.0, 6.0]], [[1.0, 12.0]]]])
        draws = Draws(values, np.array([[True, False]]), np.ones((2, 1)), 1, 0, True, "", 0)
        assert draws.mean().tolist() == [[1.0, 6.0]]

    def test_quantiles_by_hand(self):
        values = np.arange(11.0).reshape(1, 11, 1, 1)
        draws = Draws(values, np.array([[False]]), np.ones((1, 1)), 1, 0, True, "", 0)
        assert draws.quantile(0.5).tolist() == [[5.0]]
        assert draws.quantile([0.0, 0.25, 1.0]).tolist() == [[[0.0]], [[2.5]], [[10.0]]]

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_observed_entries_are_not_averaged(self, dtype):
        draws = made_up(chains=3, draws=49, dtype=dtype)
        third = draws.values[0, 0, 0, 0]
        for statistic in (draws.mean(), draws.quantile(0.3)):
            assert statistic.dtype == dtype
            assert same_bits(statistic[0, 0], third)

    def test_an_average_would_be_off(self):
        """Negative control: the mean of equal numbers is not that number."""
        values = made_up(chains=3, draws=49).values
        assert (values.mean((0, 1))[0, 0] != values[0, 0, 0, 0]).all()

    @pytest.mark.parametrize("name", ["rhat", "ess"])
    def test_convergence_is_that_of_the_chains_and_nan_where_observed(self, name):
        draws = made_up()
        found = getattr(draws, name)()
        assert np.array_equal(np.isnan(found), OBSERVED)
        for row, column in np.argwhere(~OBSERVED):
            alone = getattr(statistics, name)(draws.values[:, :, row, column])
            assert found[row, column] == pytest.approx(float(alone))

    def test_rhat_of_chains_that_disagree(self):
        draws = made_up()
        assert (draws.rhat()[~OBSERVED] < 1.1).all()
        draws.values[1, :, 1, 0] += 5
        rhat = draws.rhat()
        assert rhat[1, 0] > 1.5
        assert rhat[1, 1] < 1.1


class TestSummary:
    def test_columns(self):
        assert list(made_up().summary().columns) == [
            *("row", "column", "mean", "sd", "5%", "50%", "95%", "rhat", "ess")
        ]

    def test_one_line_per_hole_with_its_numbers(self):
        draws = made_up()
        table = draws.summary()
        assert table[["row", "column"]].to_numpy().tolist() == [[0, 1], [1, 0], [1, 1]]
        for line in table.itertuples(index=False):
            mine = draws.values[:, :, line.row, line.column].ravel()
            assert line.mean == pytest.approx(mine.mean())
            assert line.sd == pytest.approx(mine.std(ddof=1))
            assert line[4:7] == pytest.approx(np.quantile(mine, [0.05, 0.5, 0.95]))
            assert line.rhat == draws.rhat()[line.row, line.column]
            assert line.ess == draws.ess()[line.row, line.column]

    @pytest.mark.parametrize(
        ("event", "names"),
        [((4,), ["column"]), ((2, 2), ["y", "x"]), ((3, 2, 2), ["channel", "y", "x"])],
    )
    def test_places_are_named_by_the_shape(self, event, names):
        observed = np.random.default_rng(1).random((3, *event)) < 0.5
        table = made_up(observed=observed).summary()
        assert list(table.columns)[: len(names) + 1] == ["row", *names]
        assert np.array_equal(table[["row", *names]], np.argwhere(~observed))

    def test_other_shapes_get_numbered_axes(self):
        table = made_up(observed=np.zeros((1, 1, 2, 1, 2), dtype=bool)).summary()
        assert list(table.columns)[:5] == ["row", "axis0", "axis1", "axis2", "axis3"]

    def test_a_single_draw_has_no_deviation(self):
        table = made_up(chains=1, draws=1).summary()
        assert table["sd"].isna().all()
        assert table["mean"].notna().all()

    def test_nothing_missing_gives_an_empty_table(self):
        table = made_up(observed=np.ones((2, 2), dtype=bool)).summary()
        assert len(table) == 0
        assert "rhat" in table.columns


LABELS = Labels(("age", "bmi"), pd.Index(["u", "v"], name="patient"))


class TestLabels:
    """Draws of a table speak of its columns, and carry its index."""

    X = pd.DataFrame({"age": [1.0, np.nan], "bmi": [np.nan, np.nan], "sex": [0.0, 2.0]}, [7, 5])

    def test_a_summary_names_columns_and_keeps_the_index(self):
        table = labelled().summary()
        assert table["column"].to_list() == ["bmi", "age", "bmi"]
        assert table["row"].to_list() == [0, 1, 1]
        assert table.index.to_list() == ["u", "v", "v"]
        assert table.index.name == "patient"
        assert np.array_equal(table["mean"], made_up().summary()["mean"])

    def test_an_index_of_several_levels(self):
        levels = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)])
        draws = replace(made_up(), labels=Labels(None, levels))
        assert draws.summary().index.to_list() == [("a", 1), ("b", 2), ("b", 2)]
        assert draws.to_arviz()["posterior"]["x"].coords["row"].to_numpy().tolist() == [0, 1]

    def test_arviz_has_them_as_coordinates(self):
        pytest.importorskip("arviz")
        variable = labelled().to_arviz()["posterior"]["x"]
        assert variable.dims == ("chain", "draw", "row", "column")
        assert variable.coords["column"].to_numpy().tolist() == ["age", "bmi"]
        assert variable.coords["row"].to_numpy().tolist() == ["u", "v"]

    def test_a_file_keeps_them(self, tmp_path):
        back = Draws.load(labelled().save(tmp_path / "draws"))
        assert back.labels.columns == ("age", "bmi")
        assert back.labels.index.to_list() == ["u", "v"]
        assert Draws.load(made_up().save(tmp_path / "draws")).labels.columns is None

    def test_a_file_leaves_out_an_index_of_other_things(self, tmp_path):
        days = Labels(("age", "bmi"), pd.date_range("2020-01-01", periods=2))
        back = Draws.load(replace(made_up(), labels=days).save(tmp_path / "draws"))
        assert back.labels.columns == ("age", "bmi")
        assert back.labels.index is None

    @pytest.mark.parametrize("spoilt", ['["age"]', '["age",{}]', '"age"', "3", "null"])
    def test_damaged_labels_are_refused(self, tmp_path, spoilt):
        path = labelled().save(tmp_path / "draws")
        content = path.read_bytes()
        length = int.from_bytes(content[:8], "little")
        head = json.loads(content[8 : 8 + length])
        facts = head["__metadata__"]["draws"].replace('["age", "bmi"]', spoilt)
        assert facts != head["__metadata__"]["draws"]
        head["__metadata__"]["draws"] = facts
        new = json.dumps(head).encode()
        path.write_bytes(len(new).to_bytes(8, "little") + new + content[8 + length :])
        with pytest.raises(ValueError, match="columns is no list of 2 labels"):
            Draws.load(path)

    def test_they_come_from_the_table_that_was_given(self):
        with quiet():
            draws = plmcmc.condition(correlated(), self.X).sample(20, method="pcn", random_state=0)
        assert draws.summary()["column"].to_list() == ["bmi", "age", "bmi"]
        assert draws.summary().index.to_list() == [7, 5, 5]

    def test_warnings_name_the_column(self):
        with pytest.warns(plmcmc.ConvergenceWarning, match="row [01], column '(age|bmi)'"):
            plmcmc.condition(correlated(), self.X).sample(4, chains=2, warmup=0, random_state=0)

    def test_what_comes_with_a_table_must_be_in_its_order(self):
        turned = self.X[["bmi", "age", "sex"]]
        for other in ({"observed": turned.notna()}, {"noise": pd.Series(0.1, turned.columns)}):
            with pytest.raises(DataError, match="columns of x in another order"):
                plmcmc.condition(correlated(), self.X, **other)
        with pytest.raises(DataError, match="log_prob has the columns of x in another order"):
            plmcmc.condition(correlated(), self.X).log_prob(turned.fillna(0.0))


def test_numpy_takes_draws_for_their_values():
    draws = made_up()
    assert np.asarray(draws) is draws.values
    assert np.array(draws) is not draws.values
    assert np.asarray(draws, dtype=np.float32).dtype == np.float32
    assert np.quantile(draws, 0.5) == np.quantile(draws.values, 0.5)


class TestFile:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_round_trip(self, tmp_path, dtype):
        draws = made_up(dtype=dtype)
        path = draws.save(tmp_path / "draws.safetensors")
        back = Draws.load(path)
        for name in ("values", "observed", "acceptance"):
            assert same_bits(getattr(back, name), getattr(draws, name))
        for name in ("passes", "warmup_passes", "exact", "method", "seed"):
            assert getattr(back, name) == getattr(draws, name)
        assert [file.name for file in tmp_path.iterdir()] == ["draws.safetensors"]

    def test_arrays_in_another_order_of_memory(self, tmp_path):
        observed = np.asfortranarray(np.random.default_rng(0).random((4, 3)) < 0.5)
        draws = made_up(observed=observed)
        turned = Draws(
            np.asfortranarray(draws.values),
            observed,
            draws.acceptance.T.copy().T,
            1,
            0,
            True,
            "",
            0,
        )
        back = Draws.load(turned.save(tmp_path / "draws"))
        assert np.array_equal(back.values, draws.values)
        assert np.array_equal(back.observed, observed)

    def test_draws_of_a_pandas_table(self, tmp_path):
        """Its columns lie one after the other, and so does what was observed."""
        x = np.random.default_rng(0).normal(size=(5, 3))
        x[[0, 0, 2, 4], [0, 2, 1, 2]] = np.nan
        with quiet():
            posterior = plmcmc.condition(correlated(), pd.DataFrame(x, columns=list("abc")))
            draws = posterior.sample(4, method="pcn", random_state=0)
        back = Draws.load(draws.save(tmp_path / "draws"))
        assert np.array_equal(back.observed, ~np.isnan(x))
        assert np.array_equal(back.values, draws.values)

    def test_acceptance_of_full_rows_stays_nan(self, tmp_path):
        draws = made_up()
        draws.acceptance[:, 0] = np.nan
        assert np.isnan(Draws.load(draws.save(tmp_path / "draws")).acceptance[:, 0]).all()

    def test_saving_again_replaces_the_file(self, tmp_path):
        made_up(seed=1).save(tmp_path / "draws")
        second = made_up(seed=2)
        assert same_bits(Draws.load(second.save(tmp_path / "draws")).values, second.values)

    @pytest.mark.parametrize("size", [0, 3, 100, -1])
    def test_a_truncated_file_is_refused(self, tmp_path, size):
        path = made_up().save(tmp_path / "draws.safetensors")
        path.write_bytes(path.read_bytes()[:size])
        with pytest.raises(ValueError, match=r"draws\.safetensors does not contain draws"):
            Draws.load(path)

    @pytest.mark.parametrize("metadata", [None, {"draws": "{"}, {"draws": "{}"}, {"draws": "3"}])
    def test_a_foreign_file_is_refused(self, tmp_path, metadata):
        path = tmp_path / "other.safetensors"
        save_file({"weight": np.zeros(3)}, path, metadata)
        with pytest.raises(ValueError, match="does not contain draws"):
            Draws.load(path)

    def test_no_file(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            Draws.load(tmp_path / "none")


class TestArviz:
    def test_installed(self):
        arviz = pytest.importorskip("arviz")
        draws = made_up()
        data = draws.to_arviz()
        variable = data["posterior"]["x"]
        assert variable.dims[:2] == ("chain", "draw")
        assert np.array_equal(variable.to_numpy(), draws.values)
        if int(arviz.__version__.split(".")[0]) == 0:
            assert isinstance(data, arviz.InferenceData)

    @pytest.mark.parametrize("version", ["1.0.0", "1.2.3rc1"])
    def test_from_1_on(self, monkeypatch, version):
        """There, `from_dict` takes `{group: {name: array}}`."""
        stub = types.ModuleType("arviz")
        stub.__version__ = version
        stub.from_dict = lambda data, /, coords, dims: data
        monkeypatch.setitem(sys.modules, "arviz", stub)
        draws = made_up()
        tree = draws.to_arviz()
        assert list(tree) == ["posterior"]
        assert tree["posterior"]["x"] is draws.values

    def test_before_1(self, monkeypatch):
        stub = types.ModuleType("arviz")
        stub.__version__ = "0.20.0"
        stub.from_dict = lambda *, posterior, coords, dims: posterior
        monkeypatch.setitem(sys.modules, "arviz", stub)
        assert list(made_up().to_arviz()) == ["x"]

    def test_not_installed(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "arviz", None)
        with pytest.raises(ImportError, match=r"pip install 'plmcmc\[arviz\]'"):
            made_up().to_arviz()


def test_repr_is_one_line():
    assert repr(made_up()) == (
        "Draws(2 chains x 50 draws of 2 rows, 3 missing entries, 120 passes per chain, "
        "Elliptical())"
    )
