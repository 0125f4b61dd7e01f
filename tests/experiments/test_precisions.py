"""Inference in fewer bits against fp32."""

import numpy as np

from experiments.speed.precisions import Options, compare, draw


class Fixed:
    """A classifier with fixed answers."""

    def __init__(self, positive):
        self.probabilities = np.array([[1 - p, p] for p in positive])
        self.choices = self.probabilities.argmax(1)

    def predict_all(self, texts):
        return self


def test_changes_are_those_from_fp32():
    classifiers = {"fp32": Fixed([0.9, 0.4]), "bf16": Fixed([0.8, 0.4]), "int8": Fixed([0.9, 0.6])}
    rows = compare(classifiers, ["a", "bcd"], np.array([1, 0]))
    assert [rows[name]["accuracy"] for name in ("fp32", "bf16", "int8")] == [1, 1, 0.5]
    assert rows["bf16"]["changed"] == 0
    assert np.isclose(rows["bf16"]["largest"], 0.1)
    assert rows["int8"]["changed"] == 1
    assert np.isclose(rows["int8"]["median"], 0.1)
    assert rows["int8"]["characters"] == 4


def test_texts_are_drawn_with_their_labels_until_there_are_enough_characters(tmp_path):
    path = tmp_path / "texts.csv"
    rows = [f"{label},{'xy'[label] * 10}\n" for label in (0, 1, 1, 0, 1, 0, 0, 1, 1)]
    path.write_text("".join(["label,text\n", *rows]))
    texts, labels = draw(path, Options(data=(path,), characters=35))
    assert len(texts) == 3
    assert ["xy"[label] * 10 for label in labels] == texts
    assert len(draw(path, Options(data=(path,)))[0]) == 9
