"""A few of the random inputs of `python -m tests.fuzz`."""

import pytest

from tests.support.fuzzed_files import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_are_changed_at_random_harm_nobody(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    counts, wrong = KINDS[kind](tmp_path, 60)
    assert not wrong
    assert len(counts) == 2  # some are refused, some are not
