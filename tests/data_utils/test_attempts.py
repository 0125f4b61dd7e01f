"""Damaged inputs of every kind end in an InputError, or every way of reading agrees."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlstm_sentiment.reading.records import read_records
from tests.support.attempts import try_input, whole_inputs
from tests.support.damage import damaged_bytes
from transfer.published.nvidia import read_nvidia

WHOLE = whole_inputs()


@pytest.mark.parametrize("name", WHOLE)
def test_the_undamaged_one_is_read(name, tmp_path):
    (tmp_path / name).write_bytes(WHOLE[name])
    if name.endswith(".pt"):
        assert read_nvidia(tmp_path / name).tokens == 256
    else:
        assert any(read_records(tmp_path / name, strict=True))


@pytest.mark.parametrize("name", WHOLE)
def test_a_damaged_one_ends_in_an_input_error_or_is_read_alike(name, tmp_path):
    """Longer: --hypothesis-profile long."""

    @settings(
        max_examples=settings().max_examples // 4, suppress_health_check=[HealthCheck.too_slow]
    )
    @given(damaged_bytes(WHOLE[name]), st.integers(1, 40))
    def attempt(content, size):
        try_input(tmp_path, name, content, size)

    attempt()
