"""Convergence under scale: the declared runs, how they are kept, and what is told of them."""

import json
import os

import pytest

from configs.options import RunOptions
from experiments.scaling import convergence
from experiments.scaling.learning import runs
from experiments.scaling.learning.cases import Case, independent, scaled
from experiments.scaling.learning.convergence_figure import draw, equal_steps
from experiments.scaling.learning.runs import StudyOptions, make_runs
from model.errors import InputError
from model.files.storage import read_json, write_json
from tests.runs import ROOT
from tests.runs import run as run_command

CORPUS = ROOT / "tests/fixtures/v1/corpus"
CHARACTERS = 10_000_000
CASES = [*independent(), *scaled(2e-3)]
ADASUM = next(case for case in CASES if case.ranks == 4)


def test_every_run_reads_its_budget():
    assert len(CASES) <= 24
    assert len({case.name for case in CASES}) == len(CASES)
    for case in CASES:
        recipe = case.run(CHARACTERS).recipe
        read = recipe.steps * case.lanes * case.windows * recipe.keys["data.window"]
        assert read == pytest.approx(case.part * CHARACTERS, rel=0.005), case.name
        assert case.lanes == 16 * max(case.ranks, case.lanes // 16)


@pytest.mark.parametrize(
    "case", {case.series: case for case in CASES}.values(), ids=lambda case: case.series
)
def test_a_run_of_every_series_is_a_config(case, tmp_path):
    run = case.run(CHARACTERS)
    config = RunOptions.from_command_line(run.recipe.arguments(CORPUS, tmp_path)[1:]).run
    assert config.train.steps == run.recipe.steps
    assert config.data.lanes == case.lanes
    assert config.parallel.windows_per_step == case.windows
    assert config.optim.lr == case.rate
    assert (config.parallel.combine == "adasum") == (run.ranks > 1)


def test_rates_follow_their_rules():
    rates = {(case.rule, case.lanes * case.windows): case.rate for case in CASES if case.part == 1}
    # Of 2e-3 for 16 lanes; the papers' are 5e-4 for 128, and no more than 3e-3.
    assert rates["linear", 64] == pytest.approx(8e-3)
    assert rates["linear", 1024] == pytest.approx(0.128)
    assert rates["square root", 64] == pytest.approx(4e-3)
    assert rates["square root", 256] == pytest.approx(8e-3)
    assert rates["papers", 64] == pytest.approx(2.5e-4)
    assert rates["papers", 1024] == pytest.approx(3e-3)
    assert {case.rate for case in CASES if case.ranks > 1} == {2e-3}


def test_short_runs_take_as_many_updates_as_256_lanes():
    results = [{**case.run(CHARACTERS).facts, "name": case.name} for case in CASES]
    names = {result["name"] for result in equal_steps(results)}
    assert {"same_16_short", "linear_64_short", "square_root_64_short"} < names
    assert {"linear_256", "square_root_256", "adasum_256", "skipped_same_16_x16"} < names
    assert not {"searched_16_rate_0.012", "linear_64", "linear_1024"} & names


def measured(recipe, failure=(), steps=None):
    """Return what `measure` would of a run."""
    steps = recipe.steps if steps is None else steps
    row = {"step": steps, "characters": steps * 1024, "train_bits_per_character": 2.5, "x": 1}
    return {
        "valid_bits_per_character": None if failure else 2.0 + recipe.keys["optim.lr"],
        "training_seconds": 1.0,
        "failure": list(failure),
        "rows": [row],
        "origin": {"git_revision": "abc", "date": "2026-01-01"},
    }


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Return a function that makes runs with a stand-in for training; it returns their names."""
    options = convergence.Options(
        corpus=CORPUS, work=tmp_path / "work", output=tmp_path / "c.json", figure=tmp_path / "c.png"
    )

    monkeypatch.setattr(convergence, "draw", lambda path, results: path.write_text("drawn"))

    def make(cases, measure=lambda recipe: measured(recipe), jobs=1):
        trained = []

        def standing_in(recipe, corpus, folder, threads, ranks):
            trained.append((recipe.name, ranks, os.sched_getaffinity(0)))
            return measure(recipe)

        monkeypatch.setattr(runs, "measure", standing_in)
        planned = [case.run(100_000) for case in cases]
        told = StudyOptions(corpus=CORPUS, work=options.work, output=options.output, jobs=jobs)
        make_runs(planned, told, lambda results: convergence.publish(results, options))
        return trained

    return make, options.output


def test_runs_are_kept_as_they_come_and_not_made_twice(study):
    make, output = study
    first, second, third = CASES[:3]
    assert [name for name, _, _ in make([first, second])] == [first.name, second.name]
    assert [name for name, _, _ in make([third, first])] == [third.name]
    kept = read_json(output)
    # What was asked for first; nothing that was made is lost.
    assert [result["name"] for result in kept["runs"]] == [third.name, first.name, second.name]
    assert kept["declared_runs"] == len(CASES)
    assert "x" not in kept["runs"][0]["rows"][0]
    assert output.with_suffix(".png").read_text() == "drawn"


def test_another_rate_is_another_run(study):
    make, _ = study
    one, other = (Case("linear", 64, base_rate) for base_rate in (1e-3, 2e-3))
    assert one.name == other.name
    assert [len(make([case])) for case in (one, one, other, other)] == [1, 0, 1, 0]


def test_every_job_stays_on_a_core_and_the_study_does_not(study):
    make, _ = study
    before = os.sched_getaffinity(0)
    trained = make([*CASES[:3], ADASUM], jobs=2)
    assert all(len(cores) == 1 for _, _, cores in trained)
    assert {ranks for _, ranks, _ in trained} == {1, 4}
    assert os.sched_getaffinity(0) == before


def test_a_diverged_run_is_a_result(study):
    make, output = study
    words = "[rank 0] error: the training loss is not finite at step 9; lower optim.lr"
    make(CASES[:2], lambda recipe: measured(recipe, [words], steps=8))
    assert len(make(CASES[:2])) == 0
    (first, _) = read_json(output)["runs"]
    assert first["valid_bits_per_character"] is None
    assert first["failure"] == words
    assert "| 0.012 | diverged |" in convergence.tables(read_json(output))


@pytest.mark.parametrize("failure", [["error: no such corpus"], []])
def test_an_interrupted_run_is_no_result_and_costs_none(study, failure):
    make, output = study
    first, broken, last = CASES[:3]

    def measure(recipe):
        return (
            measured(recipe, failure, steps=1) if recipe.name == broken.name else measured(recipe)
        )

    with pytest.raises(InputError, match=f"{broken.name} was not trained to its end"):
        make(CASES[:3], measure)
    assert [result["name"] for result in read_json(output)["runs"]] == [first.name]
    assert [name for name, _, _ in make(CASES[:3])] == [broken.name, last.name]


def test_all_rules_begin_at_the_best_rate(tmp_path, monkeypatch, capsys):
    rates = {}

    def measure(recipe, corpus, folder, threads, ranks):
        rates[recipe.name] = recipe.keys["optim.lr"]
        return measured(recipe)  # the lower the rate, the better

    monkeypatch.setattr(runs, "measure", measure)
    monkeypatch.setattr(convergence, "draw", lambda *_: None)
    words = ["convergence", "--corpus", CORPUS, "--work", tmp_path, "--output", tmp_path / "c.json"]
    monkeypatch.setattr("sys.argv", [*map(str, words), "--jobs", "1", "--characters", "100000"])
    convergence.main()
    assert len(rates) == len(read_json(tmp_path / "c.json")["runs"]) == 24
    assert rates["linear_64"] == pytest.approx(4.8e-2)  # four times 1.2e-2
    assert rates["same_64"] == rates["adasum_256"] == pytest.approx(1.2e-2)
    assert "| the base rate, unscaled | 2.012 (0.012) | 2.012 (0.012) |" in capsys.readouterr().out


def test_results_of_another_study_are_not_written_over(study):
    make, output = study
    make(CASES[:1])
    kept = read_json(output)
    for content, said in (
        ({"runs": [{"name": "fp32", "way": "fp32"}]}, "belongs to another study"),
        ({"points": {}}, "holds no runs of a study"),
        ([], "expected a JSON object"),
    ):
        write_json(output, content)
        with pytest.raises(InputError, match=said):
            make(CASES[:1])
        assert json.loads(output.read_text()) == content
    write_json(output, kept)
    assert make(CASES[:1]) == []


@pytest.mark.parametrize(("best", "outermost"), [(0, True), (1, False), (2, True)])
def test_a_best_rate_beyond_which_none_was_tried_is_said_to_be_one(best, outermost):
    tried = [result for result in made_up() if result["series"] == convergence.SEARCH]
    tried[best]["valid_bits_per_character"] = 1.0
    assert ("the outermost" in convergence.rates(tried)) == outermost


def test_without_a_rate_that_trains_there_is_no_base():
    tried = [{**result, "valid_bits_per_character": None} for result in made_up()]
    with pytest.raises(InputError, match="no searched rate trains"):
        convergence.base_rate(tried)
    assert convergence.with_base(tried) == tried


def made_up():
    """Return a result for every case; the fastest linear one has diverged."""
    results = []
    for number, case in enumerate(CASES):
        run, bits = case.run(CHARACTERS), 2 + number / 100
        rows = [
            {"characters": million * 10**6, "train_bits_per_character": 3 - million / 10}
            for million in range(1, 10)
        ]
        bits = None if case.rate > 0.1 else bits
        facts = {**run.facts, "name": case.name, "ranks": run.ranks}
        results.append({**facts, "valid_bits_per_character": bits, "rows": rows})
    return results


def test_tables_have_every_run_once(tmp_path):
    results = convergence.with_base(made_up())
    text = convergence.tables({"runs": made_up()})
    equal_characters, at_equal_steps = text.split("as many updates")
    for result in results:
        if result["valid_bits_per_character"] is None:
            assert "diverged (0.128)" in equal_characters
        elif result["part"] == 1 and result["series"] != convergence.SEARCH:
            shown = f"{result['valid_bits_per_character']:.3f} ({result['rate']:.3g})"
            assert shown in equal_characters, result["name"]
        elif result["part"] < 1:
            assert f"{result['valid_bits_per_character']:.3f}" in at_equal_steps
    assert [text.count(f"| {rate} |") for rate in (0.012, 0.024, 0.048)] == [1, 1, 1]
    draw(tmp_path / "figure.png", results)
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_a_figure_of_few_runs_is_drawn(tmp_path):
    draw(tmp_path / "figure.png", convergence.with_base(made_up()[1:2]))
    assert (tmp_path / "figure.png").stat().st_size > 1_000


def test_no_runs_at_a_time_are_refused(tmp_path):
    with pytest.raises(InputError, match="--jobs 0"):
        StudyOptions(corpus=CORPUS, work=tmp_path, output=tmp_path / "x.json", jobs=0)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_command_trains_ranks_and_goes_on(tmp_path):
    output = tmp_path / "convergence.json"
    words = ["-m", "experiments.scaling.convergence", "--corpus", CORPUS, "--output", output]
    words += ["--work", tmp_path / "work", "--characters", "2048"]
    lines = (
        "import experiments.scaling.convergence as c\n"
        "from experiments.scaling.learning.cases import Case\n"
        "from configs import command\n"
        "c.independent = lambda: [Case('same', 16, 1e-3)]\n"
        "c.scaled = lambda base_rate: [Case('same', 32, base_rate, ranks=2)]\n"
        f"import sys; sys.argv = {list(map(str, words[1:]))!r}\n"
        "command.run(c.main)\n"
    )
    first = run_command("-c", lines, timeout=500)
    assert first.returncode == 0, first.stderr
    alone, adasum = read_json(output)["runs"]
    assert (alone["steps"], adasum["steps"]) == (2, 1)
    assert adasum["ranks"] == 2
    assert alone["valid_bits_per_character"] < 8.1
    again = run_command("-c", lines, timeout=500)
    assert again.returncode == 0, again.stderr
    assert read_json(output)["runs"] == [alone, adasum]
