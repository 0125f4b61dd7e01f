"""Requests that wait at the same time are answered together."""

from threading import Event

import pytest

from mlstm_sentiment.server.answers import Batcher


class Model:
    """Answers with the length of each text; a call waits until it is let go, or nobody waits."""

    def __init__(self):
        self.calls, self.begun, self.let_go = [], Event(), Event()

    def __call__(self, texts, sides, advance):
        self.calls.append(texts)
        self.begun.set()
        while not self.let_go.wait(0.01):
            advance(1)
        if "too long" in texts:
            raise ValueError("too long")
        return [{"length": len(text), "sides": sides} for text in texts]


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def batcher(model):
    """A batcher whose thread is busy with a first request."""
    batcher = Batcher(model, most_texts=4, threads=1)
    batcher.submit(["first"], False)
    model.begun.wait()
    yield batcher
    model.let_go.set()


def lengths(future):
    return [row["length"] for row in future.result(timeout=60)]


def test_what_waits_is_answered_together_up_to_a_number_of_texts(model, batcher):
    waiting = [batcher.submit(["a"] * number, False) for number in (1, 2, 3, 0, 1)]
    model.let_go.set()
    assert list(map(lengths, waiting)) == [[1], [1, 1], [1, 1, 1], [], [1]]
    assert list(map(len, model.calls)) == [1, 6, 1]


def test_those_of_one_kind_are_answered_together(model, batcher):
    waiting = [batcher.submit(["a"], sides) for sides in (False, True, False)]
    model.let_go.set()
    assert [future.result()[0]["sides"] for future in waiting] == [False, True, False]
    assert list(map(len, model.calls)) == [1, 2, 1]


def test_an_error_is_that_of_its_own_request(model, batcher):
    good = [batcher.submit(["a"], False) for _ in range(3)]
    bad = batcher.submit(["too long"], False)
    model.let_go.set()
    assert list(map(lengths, good)) == [[1]] * 3
    with pytest.raises(ValueError, match="too long"):
        bad.result()
    assert list(map(len, model.calls)) == [1, 4, 2, 2, 1, 1]


def test_what_is_cancelled_takes_no_part(model, batcher):
    waiting = [batcher.submit(["a"] * number, False) for number in (4, 1, 4, 1)]
    for future in waiting[::2]:
        future.cancel()
    model.let_go.set()
    assert list(map(lengths, waiting[1::2])) == [[1], [1]]
    assert list(map(len, model.calls)) == [1, 2]


def test_a_batch_that_everybody_left_ends_and_is_not_begun_again(model):
    batcher = Batcher(model, most_texts=4, threads=1)
    batcher.submit(["first"], False).cancel()
    waiting = [batcher.submit(["a"], False) for _ in range(3)]
    while len(model.calls[-1:]) < 1 or "a" not in model.calls[-1]:
        model.begun.wait(0.01)
    for future in waiting:
        future.cancel()
    model.begun.clear()
    last = batcher.submit(["last"], False)
    model.begun.wait()
    model.let_go.set()
    assert lengths(last) == [4]
    assert model.calls.count(["a"]) <= 1
