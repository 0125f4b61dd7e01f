"""Inference in fewer bits against fp32."""

import numpy as np

from experiments.recurrence.precisions import Options, compare, draw


class Known:
    """A classifier whose answers are known."""

    def __init__(self, positive):
        self.probabilities = np.array([[1 - p, p] for p in positive])
        self.choices = self.probabilities.argmax(1)

    def read(self, texts):
        return self


def test_changes_are_those_from_fp32():
    classifiers = {"fp32": Known([0.9, 0.4]), "bf16": Known([0.8, 0.4]), "int8": Known([0.9, 0.6])}
    found = compare(classifiers, ["a", "bcd"])
    assert found["bf16"]["changed"] == 0
    assert np.isclose(found["bf16"]["largest"], 0.1)
    assert found["int8"]["changed"] == 1
    assert np.isclose(found["int8"]["median"], 0.1)
    assert found["int8"]["characters"] == 4


def test_texts_are_drawn_until_there_are_enough_characters(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"{'x' * 10}\n" for _ in range(9)))
    assert draw(path, Options(data=(path,), characters=35)) == ["x" * 10] * 3
    assert len(draw(path, Options(data=(path,)))) == 9
