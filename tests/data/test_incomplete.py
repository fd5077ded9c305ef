"""`Incomplete` takes in rows with holes, never reads a hole, and says which row is wrong."""

import numpy as np
import pandas as pd
import pytest
import torch

from plmcmc.data import DataError, Incomplete
from plmcmc.data.incomplete import checked

NAN = float("nan")
TABLE = [[1.0, NAN, 3.0], [NAN, NAN, 6.0]]
SEEN = [[True, False, True], [False, False, True]]


def with_value(value: float, shape: tuple[int, ...], *places: tuple[int, ...]) -> np.ndarray:
    x = np.zeros(shape)
    for place in places:
        x[place] = value
    return x


KINDS = {
    "lists": lambda: TABLE,
    "tuples": lambda: tuple(map(tuple, TABLE)),
    "list of arrays": lambda: [np.array(row) for row in TABLE],
    "list of tensors": lambda: [torch.tensor(row) for row in TABLE],
    "double array": lambda: np.array(TABLE),
    "single array": lambda: np.array(TABLE, dtype=np.float32),
    "half array": lambda: np.array(TABLE, dtype=np.float16),
    "swapped bytes": lambda: np.array(TABLE).astype(">f8"),
    "transposed array": lambda: np.array(TABLE).T.copy().T,
    "double tensor": lambda: torch.tensor(TABLE, dtype=torch.float64),
    "brain float tensor": lambda: torch.tensor(TABLE, dtype=torch.bfloat16),
    "tensor with gradient": lambda: torch.tensor(TABLE, requires_grad=True),
    "frame": lambda: pd.DataFrame(TABLE, columns=["a", "b", "c"]),
    "frame with an integer column": lambda: pd.DataFrame(TABLE).astype({2: int}),
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nan_marks_the_holes_in_any_kind_of_array(kind, dtype):
    data = Incomplete.of(kind(), dtype=dtype)
    assert data.rows == 2
    assert data.values.dtype == dtype
    assert data.values.tolist() == [[1, 0, 3], [0, 0, 6]]
    assert data.observed.tolist() == SEEN
    assert not data.values.requires_grad


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor, pd.DataFrame])
def test_observed_may_be_any_kind_of_array(kind):
    data = Incomplete.of(np.ones((2, 3)), kind(SEEN))
    assert data.observed.tolist() == SEEN
    assert data.values.tolist() == [[1, 0, 1], [0, 0, 1]]


@pytest.mark.parametrize("behind", [NAN, np.inf, -np.inf, 1e300, 5.0])
def test_what_is_behind_a_hole_is_never_read(behind):
    x = np.where(SEEN, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], behind)
    data = Incomplete.of(x, SEEN)
    assert data.values.tolist() == [[1, 0, 3], [0, 0, 6]]
    y = torch.tensor([[7.0, 8.0, 9.0], [10.0, 11.0, 12.0]])
    assert data.project(y).tolist() == [[1, 8, 3], [10, 11, 6]]


def test_nothing_and_everything_may_be_missing():
    assert Incomplete.of([[1.0, 2.0]]).observed.all()
    assert not Incomplete.of([[NAN, NAN]]).observed.any()


def test_images_keep_their_shape():
    data = Incomplete.of(with_value(NAN, (2, 3, 4, 5), (1, 2, 3, 4)))
    assert data.values.shape == (2, 3, 4, 5)
    assert (~data.observed).nonzero().tolist() == [[1, 2, 3, 4]]


def test_the_callers_arrays_may_change_afterwards():
    x, observed = np.ones((1, 2)), np.array([[True, False]])
    data = Incomplete.of(x, observed, dtype=torch.float64)
    x[:], observed[:] = 7, True
    assert data.values.tolist() == [[1, 0]]
    assert data.observed.tolist() == [[True, False]]
    seen = torch.tensor([[True, False]])
    data = Incomplete.of(torch.ones(1, 2), seen)
    seen[:] = True
    assert data.observed.tolist() == [[True, False]]


def test_the_callers_arrays_are_left_alone():
    x, observed = np.array(TABLE), np.array(SEEN)
    Incomplete.of(x, observed)
    np.testing.assert_array_equal(x, TABLE)
    np.testing.assert_array_equal(observed, SEEN)


def test_project_keeps_holes_and_puts_observed_values_in():
    data = Incomplete.of(TABLE)
    y = torch.arange(6.0).reshape(2, 3) + 10
    assert data.project(y).tolist() == [[1, 11, 3], [13, 14, 6]]
    assert y.tolist() == [[10, 11, 12], [13, 14, 15]]
    assert torch.equal(data.project(data.project(y)), data.project(y))


def test_select_takes_rows_with_their_patterns():
    data = Incomplete.of(np.where(np.eye(4, 3), np.nan, np.arange(12.0).reshape(4, 3)))
    for rows in (slice(1, 3), torch.tensor([2, 0]), torch.tensor([False, True, True, False])):
        part = data.select(rows)
        assert torch.equal(part.values, data.values[rows])
        assert torch.equal(part.observed, data.observed[rows])


def test_repeat_puts_the_copies_of_a_row_side_by_side():
    data = Incomplete.of(TABLE).repeat(3)
    assert data.rows == 6
    assert data.values[:, 2].tolist() == [3, 3, 3, 6, 6, 6]
    assert data.observed[:, 0].tolist() == [True] * 3 + [False] * 3


def test_checked_keeps_the_callers_precision():
    values, seen = checked(np.array([[0.1, NAN]]))
    assert values.dtype == np.float64
    assert values[0, 0] == 0.1
    assert seen.tolist() == [[True, False]]


OBSERVED = np.ones((4, 3), dtype=bool)
BAD_VALUES = {
    "NaN though seen": (
        (with_value(NAN, (4, 3), (2, 1)), OBSERVED),
        r"is NaN although `observed` says it was seen at row 2, column 1: mark it missing",
    ),
    "several NaN": (
        (with_value(NAN, (4, 3), (2, 1), (3, 0), (3, 2)), OBSERVED),
        r"NaN .* at row 2, column 1 \(and 2 more\)",
    ),
    "infinite": (
        (with_value(np.inf, (4, 3), (3, 2)),),
        r"x is infinite at row 3, column 2: mark it missing \(NaN\) or give a finite value",
    ),
    "minus infinity though seen": (
        (with_value(-np.inf, (4, 3), (0, 2)), OBSERVED),
        r"x is infinite at row 0, column 2",
    ),
    "infinite pixel": (
        (with_value(np.inf, (4, 1, 5, 5), (3, 0, 2, 4)),),
        r"x is infinite at row 3, entry \(0, 2, 4\)",
    ),
    "too large": (
        (with_value(1e39, (4, 3), (1, 2)),),
        r"x is too large for torch.float32 at row 1, column 2: rescale it, or use float64",
    ),
}
BAD_SHAPES = {
    "wrong width": (
        ([[1.0, 2.0], [3.0, 4.0], [5.0]],),
        r"different widths: row 0 has 2 values, row 2 has 1 values: give every row the same",
    ),
    "wrong width of tensors": (
        ([torch.ones(2), torch.ones(3)],),
        r"different widths: row 0 has 2 values, row 1 has 3 values",
    ),
    "wrong width of images": (
        ([np.ones((1, 4)), np.ones((2, 2))],),
        r"different widths: row 0 has shape \(1, 4\), row 1 has shape \(2, 2\)",
    ),
    "a number for a row": (([[1.0, 2.0], 3.0],), r"row 0 has 2 values, row 1 has shape \(\)"),
    "uneven row": (
        ([[[1.0], [2.0]], [[1.0], [2.0, 3.0]]],),
        r"row 1 has parts of different widths",
    ),
    "uneven first row": (([[1.0, [2.0]]],), r"row 0 has parts of different widths"),
    "one dimension": (([1.0, NAN],), r"got shape \(2,\): pass x\[None\] for a single row"),
    "a number": ((1.0,), r"shape \(rows, columns\) or \(rows, \*event\); got shape \(\)"),
    "no rows": ((np.zeros((0, 3)),), r"x is empty: shape \(0, 3\); at least one row"),
    "no columns": ((np.zeros((3, 0)),), r"x is empty: shape \(3, 0\)"),
    "an empty list": (([],), r"got shape \(0,\)"),
}
BAD_TYPES = {
    "integers": ((np.ones((2, 2), dtype=int),), r"floating array; got int64.*x\.astype\(float\)"),
    "integer lists": (([[1, 2]],), r"floating array; got int64"),
    "integer tensor": ((torch.ones(2, 2, dtype=torch.int32),), r"floating array; got int32"),
    "integer frame": ((pd.DataFrame({"a": [1, 2]}),), r"floating array; got int64"),
    "bools": ((np.ones((2, 2), dtype=bool),), r"floating array; got bool"),
    "complex numbers": ((np.ones((2, 2), dtype=complex),), r"floating array; got complex128"),
    "text": (([["a", "b"]],), r"floating array; got <U1"),
    "None": (([[1.0, None]],), r"must hold numbers.*Python objects.*None into NaN"),
    "frame with text": (
        (pd.DataFrame({"a": [1.0], "b": ["x"]}),),
        r"must hold numbers; column 'b' has dtype .*turn the column into floating numbers",
    ),
    "masked array": (
        (np.ma.masked_array([[1.0, 2.0]], [[True, False]]),),
        r"x is a masked array.*pass x\.filled\(np\.nan\)",
    ),
}
BAD_OBSERVED = {
    "other rows": ((np.ones((4, 3)), OBSERVED[:3]), r"x's shape \(4, 3\); got \(3, 3\)"),
    "one row for all": ((np.ones((4, 3)), OBSERVED[0]), r"x's shape \(4, 3\); got \(3,\)"),
    "uneven": (
        (np.ones((2, 2)), [[True, False], [True]]),
        r"observed must have x's shape \(2, 2\); got rows of different widths",
    ),
    "integers": (
        (np.ones((4, 3)), OBSERVED.astype(int)),
        r"observed must be boolean, True = seen; got int64: pass observed\.astype\(bool\)",
    ),
    "float tensor": ((np.ones((4, 3)), torch.ones(4, 3)), r"must be boolean.*got float32"),
    "objects": ((np.ones((1, 2)), [[True, None]]), r"must be boolean.*got object"),
}
BAD = {
    f"{kind}: {name}": case
    for kind, cases in {
        "value": BAD_VALUES,
        "shape": BAD_SHAPES,
        "type": BAD_TYPES,
        "observed": BAD_OBSERVED,
    }.items()
    for name, case in cases.items()
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_in_words(arguments, message):
    with pytest.raises(DataError, match=message):
        Incomplete.of(*arguments)


def test_what_is_too_large_for_single_precision_fits_into_double():
    data = Incomplete.of(with_value(1e39, (4, 3), (1, 2)), dtype=torch.float64)
    assert data.values[1, 2] == 1e39
