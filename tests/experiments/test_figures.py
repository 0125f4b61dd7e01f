"""The figures of closed studies: drawn from the results as they are kept."""

from experiments.figures import FIGURES, HERE, case_of, counts
from model.files.storage import read_json


def test_every_figure_is_drawn_from_its_results():
    for path, draw in FIGURES.items():
        assert (HERE / path).is_file()
        for axes in draw().axes:
            assert axes.get_xlabel()


def test_the_runs_left_out_are_those_of_the_page():
    runs = read_json(HERE / "scaling/results/emulated.json")["runs"]
    left_out = sum(not counts(row["measures"]) for row in runs)
    page = (HERE / "scaling/emulated.md").read_text()
    assert f"{left_out} of {len(runs)} runs are left out" in page


def test_a_case_has_a_name_in_words():
    assert case_of("w1_h64_none_k4") == "1 rank, 64 units, every 4th window"
    assert case_of("w2_h128_powersgd_b0.1_k1") == (
        "2 ranks, 128 units, PowerSGD, buckets of 0.1 MB, each window"
    )
