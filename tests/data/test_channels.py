"""Where channels are: first or last, of pictures in colour and in grey."""

import pytest

from plmcmc.data.channels import channel_axis


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((5, 3, 8, 9), 1),
        ((5, 1, 8, 9), 1),
        ((5, 8, 9, 3), 3),
        ((5, 8, 9, 1), 3),
        # Either might be: flows have them first.
        ((5, 3, 8, 3), 1),
        ((5, 1, 8, 1), 1),
        ((5, 4, 8, 9), 1),
        ((5, 8, 9), None),
        ((5, 3), None),
    ],
)
def test_the_axis_of_the_channels(shape, axis):
    assert channel_axis(shape) == axis
