"""Search parameters as a search of a width needs them."""

from __future__ import annotations

import pytest

from pipeline.adapters.milvus_widths import AT_LEAST_THE_WIDTH, widened


@pytest.mark.parametrize("name", AT_LEAST_THE_WIDTH)
@pytest.mark.parametrize(
    ("configured", "limit", "sent"),
    [
        (128, 150, 150),
        (128, 129, 129),
        (128, 128, 128),
        (128, 20, 128),
        pytest.param("128", 150, 150, id="digits-150"),
        pytest.param("128", 20, "128", id="digits-20"),
    ],
)
def test_what_is_smaller_than_the_width_is_raised_to_it(
    name: str, configured: object, limit: int, sent: object
) -> None:
    """A search that the parameter allows is sent as configured, to the byte."""
    assert widened({name: configured, "radius": 0.5}, limit) == {name: sent, "radius": 0.5}


@pytest.mark.parametrize("value", [0, -1, 1.5, "x", "", "-3", "\u0663", None, True, [16]])
def test_what_is_no_positive_whole_number_is_left_to_the_engine(value: object) -> None:
    """Its refusal says more than a value that was made up."""
    assert widened({"ef": value}, 150) == {"ef": value}


def test_other_parameters_are_left_as_they_are() -> None:
    """Nothing is added, and the configured parameters are not changed in place."""
    params = {"nprobe": 4, "ef": 16}
    assert widened(params, 20) == {"nprobe": 4, "ef": 20}
    assert params == {"nprobe": 4, "ef": 16}
    assert widened({}, 20) == {}
