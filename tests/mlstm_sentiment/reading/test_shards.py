"""The outputs of shards: their names."""

import pytest

from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.source import Shard


@pytest.mark.parametrize(
    ("name", "shard", "words"),
    [
        ("all-1-of-3.csv", Shard(1, 3), None),
        ("any.csv", Shard(1, 4), None),
        ("other-1-of-4.csv", Shard(1, 4), None),
        ("all-1-of-3.csv", Shard(1, 4), "its name says another part than --shard 1/4"),
        ("all-2-of-3.csv", Shard(1, 3), "its name says another part"),
        ("all-1-of-3.csv", Shard(), "its name says another part"),
        ("all-1-of-4.csv", Shard(1, 4), r"all-1-of-3\.csv is one of 3 parts"),
    ],
)
def test_another_number_of_shards_is_refused(tmp_path, name, shard, words):
    for number in (1, 2, 3):
        (tmp_path / f"all-{number}-of-3.csv").write_text("text\n")
    if words is None:
        shard.check_name(tmp_path / name)
    else:
        with pytest.raises(InputError, match=words):
            shard.check_name(tmp_path / name)
