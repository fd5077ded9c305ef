"""A model, three files for it, and what they are filled with if nothing is in the way."""

import pandas as pd
import pytest

from part_by_part import PART, ROWS, contents, filled
from plmcmc import FlowImputer, rng
from toy_tables import LEAST, mixed, with_holes


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(rng, "PART_ROWS", PART)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    frame, _ = with_holes(mixed(200))
    place = tmp_path_factory.mktemp("model") / "model"
    FlowImputer(LEAST, random_state=3, progress=False).fit(frame).save(place)
    return place


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Three files with every kind of column, and one that the model does not know."""
    folder = tmp_path_factory.mktemp("data")
    for number, rows in enumerate(ROWS):
        frame, _ = with_holes(mixed(rows, seed=number), seed=number)
        frame["when"] = pd.Timestamp("2024-01-01")
        place = folder / f"{number}.parquet"
        frame.to_parquet(place, row_group_size=40)
    return sorted(folder.iterdir())


@pytest.fixture(scope="session")
def undisturbed(data, model, tmp_path_factory):
    """The files that are written if nothing is in the way."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rng, "PART_ROWS", PART)
        filled(data, model, out)
    return contents(out)
