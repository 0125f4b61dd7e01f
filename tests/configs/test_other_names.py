"""Names of other libraries lead to options that exist, and to constants that are where they say."""

import re

import pytest

from configs.options import OTHER_NAMES, RunOptions
from mlstm_sentiment.commands.parser import _places
from tests.support.runs import ROOT

OPTIONS = {
    f"--{place.name}".replace("_", "-")
    for place in _places(RunOptions, RunOptions(), with_help=False)
}


@pytest.mark.parametrize("instead", sorted(set(OTHER_NAMES.values())))
def test_what_is_named_instead_exists(instead):
    for option in re.findall(r"--(?:[a-z]+\.)[a-z-]+", instead):
        assert option in OPTIONS
    constants, file = (
        re.findall(r"\b_?[A-Z]{2,}[A-Z_]*\b", instead),
        re.findall(r"\S+\.py", instead),
    )
    if constants:
        text = (ROOT / file[0]).read_text()
        assert all(f"\n{constant} = " in text for constant in constants)


def test_no_other_name_is_an_option():
    assert not {f"--{name}" for name in OTHER_NAMES} & OPTIONS
