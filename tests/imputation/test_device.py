"""Where an imputer works: named, refused if it is not there, and kept apart from another's."""

import numpy as np
import pytest
import torch

from plmcmc.cli import main
from plmcmc.imputation import FlowImputer
from plmcmc.imputation.device import device_of
from toy_tables import TINY


def table():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 1)) + 0.3 * rng.normal(size=(80, 3))
    x[rng.random(x.shape) < 0.2] = np.nan
    return x


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "meta", "hpu"])
def test_a_device_that_is_not_there_is_refused(name):
    with pytest.raises(ValueError, match=f"device '{name}'.*'cpu'"):
        FlowImputer(TINY, device=name).fit(table())


def test_a_model_is_not_loaded_onto_what_is_not_there(tmp_path):
    FlowImputer(TINY, random_state=0).fit(table()).save(tmp_path / "model")
    with pytest.raises(ValueError, match="device 'cuda:99'"):
        FlowImputer.load(tmp_path / "model", device="cuda:99")


def test_the_command_names_its_option(tmp_path, capsys):
    place = tmp_path / "a.csv"
    np.savetxt(place, table(), delimiter=",", header="a,b,c", comments="")
    for command in ("impute", "fit"):
        assert main([command, str(place), "-o", str(tmp_path / "b.csv"), "--device", "gpu"]) == 2
        assert "--device 'gpu' cannot be used" in capsys.readouterr().err
    assert not (tmp_path / "b.csv").exists()


def test_a_device_by_name_or_itself():
    assert device_of("cpu") == device_of(torch.device("cpu")) == torch.device("cpu")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_learns_the_same_table(tmp_path):
    x = table()
    there, here = (FlowImputer(TINY, random_state=0, device=d).fit(x) for d in ("cuda", "cpu"))
    filled = there.transform(x)
    np.testing.assert_array_equal(filled[~np.isnan(x)], x[~np.isnan(x)])
    assert np.abs(filled - here.transform(x)).max() < 1.0
    np.testing.assert_allclose(there.score(x), here.score(x), atol=0.3)
    assert len(there.complete(x, 3)) == 3
    loaded = FlowImputer.load(there.save(tmp_path / "model"), device="cuda")
    np.testing.assert_array_equal(loaded.transform(x), filled)
