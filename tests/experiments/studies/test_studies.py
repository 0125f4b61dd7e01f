"""Studies: their runs, the law of sizes, features, titles, axes, and words."""

from itertools import product

import numpy as np
import pytest
import torch

from configs import command
from data_utils.labelled import LabelledSet
from experiments import studies, tables
from experiments.curve import report as curve_report
from experiments.curve.run import (
    begun,
    correlations,
    selectivity,
    spread,
    telling_words,
)
from experiments.features.axes import describe_axes
from experiments.features.fits import WAYS, fit_way
from experiments.features.run import Options as FeatureOptions
from experiments.features.titles import TITLE_MARK, title_scores
from experiments.generation.run import bits_per_character, distinct_words
from experiments.peers.report import by_rate
from experiments.sizes.report import Law, fit, parameters_of, standard_errors
from experiments.speedrun.report import lines_of
from experiments.studies import STUDIES, mean_of, read_runs, told, train_study, whole_results
from experiments.studies import Options as StudyOptions
from model.errors import InputError
from model.files.storage import write_json
from model.files.weights import load_model, save_model
from model.language_model import ModelConfig, build_model
from model.scoring import token_costs
from model.text.profiles import text_profile
from transfer.regression import Examples


@pytest.mark.parametrize("study", STUDIES)
def test_every_run_of_a_study_has_its_own_name_and_a_config_that_trains(study):
    runs = list(read_runs(study))
    assert len({run.name for run in runs}) == len(runs)
    for run in runs:
        keys = run.keys
        model = {k.removeprefix("model."): v for k, v in keys.items() if k.startswith("model.")}
        ModelConfig(**model)
        assert run.steps > 0
        assert keys["data.lanes"] % run.ranks == 0


def test_peers_have_as_many_parameters_within_3_per_cent():
    sizes = {}
    for run in read_runs("peers"):
        model = {k: v for k, v in run.keys.items() if k.startswith("model.")}
        sizes[run.name] = parameters_of(model["model.hidden_size"], model)
    assert max(sizes.values()) / min(sizes.values()) < 1.03


def test_an_unknown_study_is_one_line():
    with pytest.raises(InputError, match="there is no such study"):
        list(read_runs("absent"))


@pytest.fixture
def small_study(tmp_path):
    """A study of two seeds, of which the second has failed; what starts it, and what it trains."""
    folder = tmp_path / "small"
    (folder / "results").mkdir(parents=True)
    (folder / "runs.toml").write_text(
        '[base]\n"data.lanes" = 1\n"data.window" = 8\n'
        "[runs.one]\ncharacters = 800\nseeds = [0, 1]\n"
    )
    for seed, failure in enumerate(([], ["the loss is not finite"])):
        bits = None if failure else 2.0
        result = {"valid_bits_per_character": bits, "failure": failure}
        write_json(folder / "results" / f"one_seed_{seed}.json", result)
    trained = []

    def train(run, options):
        trained.append(run.name)
        return {"valid_bits_per_character": 1.0, "failure": []}

    def start(*words):
        options = command.parse(StudyOptions, arguments=["small", *words])
        train_study(options, train, here=tmp_path)

    return start, trained


def test_a_failed_run_is_in_no_table_and_is_trained_again(small_study, tmp_path, capsys):
    start, trained = small_study
    assert list(whole_results("small", here=tmp_path)) == ["one_seed_0"]
    start()
    assert trained == ["one_seed_1"]
    start()
    assert trained == ["one_seed_1"]
    assert "all 2 runs have a result; --again trains them again" in capsys.readouterr().out
    start("--again")
    assert trained == ["one_seed_1", "one_seed_0", "one_seed_1"]


def test_of_several_names_one_that_is_unknown_trains_nothing(small_study):
    start, trained = small_study
    with pytest.raises(InputError, match="no such run: two; known: one_seed_0, one_seed_1"):
        start("one", "two")
    assert not trained
    start("one")
    assert trained == ["one_seed_0", "one_seed_1"]


def test_the_board_has_the_shortest_run_of_each_recipe_that_reaches_a_target():
    """`quick_2m` is left out since one seed missed; `slow` reaches the target and is behind."""

    def run(read, bits, seed=0, corpus="", **changes):
        keys = {"model.hidden_size": 8, "seed": seed, **changes}
        return {"keys": keys, "corpus": corpus, "characters_read": 1e6 * read,
                "valid_bits_per_character": bits}  # fmt: skip

    adam = {"optim.name": "adam"}
    runs = {
        "slow_8_6m": [run(6, 1.75, **adam)],
        "quick_8_8m": [run(8, 1.5, corpus="pieces")],
        "quick_8_4m": [run(4, 1.7 + 0.1 * n, n, corpus="pieces") for n in (0, 1)],
        "quick_8_2m": [run(2, 1.75 + 0.1 * n, n, corpus="pieces") for n in (0, 1)],
    }
    speeds = {
        "mlstm_8_adam": {"median": 1e5, "least": 8e4, "most": 1.2e5},
        "mlstm_8_pieces": {"median": 2e5, "least": 1e5, "most": 2e5},
    }
    assert lines_of(1.8, runs, speeds) == [
        ["1.80", "`quick_8_4m`", "4.0", "1.750 (1.700 to 1.800; 2 seeds)", "20 (20 to 40)"],
        ["1.80", "`slow_8_6m`", "6.0", "1.750", "60 (50 to 75)"],
    ]
    assert lines_of(1.4, runs, speeds) == [["1.40", "no run of this study", "", "", ""]]


@pytest.mark.parametrize("name", ["imbd", "semeval", "yelp_full"])
def test_features_are_compared_on_sets_of_two_classes_alone(name, capsys):
    words = ["--data", ".", "--output", "o.json", "--sets", "sst", name]
    with pytest.raises(SystemExit, match="2"):
        command.parse(FeatureOptions, arguments=words)
    assert name in capsys.readouterr().err


def test_bits_are_of_a_character_also_where_tokens_are_pieces(tmp_path, subword_model, subwords):
    save_model(tmp_path, subword_model, text_profile("openai"), {}, tokenizer=subwords)
    loaded = load_model(tmp_path)
    texts = ["I like it a lot, really", "it broke"]
    found, _ = bits_per_character(loaded, texts)
    each = []
    for text in texts:
        ((_, (cost,)),) = token_costs(loaded.model, [loaded.tokens(text)], batch_size=1)
        each.append(cost.sum() / len(loaded.profile.encode(text)))
    assert found == pytest.approx(np.mean(each), rel=1e-6)


def test_a_curve_goes_on_only_with_the_same_run(tmp_path):
    file, about = tmp_path / "curve.json", {"run": "a", "unit": 3}
    assert begun(file, about) == {"run": "a", "unit": 3, "points": []}
    write_json(file, {**about, "points": [1]})
    assert begun(file, about)["points"] == [1]
    with pytest.raises(InputError, match=r"another curve \(another unit\)"):
        begun(file, {"run": "a", "unit": 4})


def point(characters, words=(), **last):
    """A point of a curve: words that move its unit by these means, accuracies of 1,000 texts."""
    return {
        "characters": characters,
        "words": {
            word: {"mean": mean, "error": None if mean is None else 0.1, "count": 9}
            for word, mean in dict(words).items()
        },
        "sets": {
            name: {"last": {"all_units": studies.tested(accuracy, 1000)}}
            for name, accuracy in last.items()
        },
    }


@pytest.fixture
def curve_of(tmp_path, monkeypatch):
    """Return a function that keeps these points as the result of the curve `c`."""
    monkeypatch.setattr(tables, "EXPERIMENTS", tmp_path)
    (tmp_path / "curve/results").mkdir(parents=True)

    def keep(*points, **about):
        write_json(tmp_path / "curve/results/c.json", {**about, "points": points})

    return keep


def test_words_that_move_a_unit_stand_beside_those_of_the_model_that_has_read_nothing(curve_of):
    odds = {"good": 1.0, "bad": -1.0, "odd": 1.0, "so": -1.0}
    before = {"good": 0.5, "bad": 0.5, "odd": None, "so": 0.2}
    after = {"good": 0.5, "bad": -0.5, "odd": None, "so": 0.2}  # so: by two standard errors
    curve_of(point(2_000_000, after), point(0, before), words=odds, polarity=1)
    assert curve_report.words("c").splitlines()[2:] == [
        "| 0.0 | `good` | `bad` |",
        "| 2.0 | `good`, `bad` |  |",
    ]
    curve_of(point(0, before), words=odds, polarity=-1)
    assert "| 0.0 | `bad` | `good` |" in curve_report.words("c")


def test_a_gain_begins_where_it_leaves_the_untrained_model_for_good(curve_of):
    """Of 1,000 texts, intervals of 0.5 and 0.56 overlap; those of 0.5 and 0.6 do not."""
    accuracies = (0.5, 0.56, 0.6, 0.56, 0.6, 0.7)
    curve_of(*(point(n * 1_000_000, sst=value) for n, value in enumerate(accuracies)))
    (line,) = curve_report.gains("c").splitlines()[2:]
    low, high = (f"{100 * end:.1f}" for end in studies.tested(0.7, 1000)["test_interval"])
    assert line.startswith("| SST, last | 50.0 (46.9 to 53.1) | ")
    assert line.endswith(f" | 70.0 ({low} to {high}) | 30 | 50 | 4.0 |")
    curve_of(point(0, sst=0.5), point(1_000_000, sst=0.5))
    assert curve_report.gains("c").endswith(" | - | - | - |")


def test_a_curve_without_a_result_is_not_measured_yet(curve_of):
    for table in ("table", "words", "gains"):
        assert tables.made(f"experiments.curve.report.{table}", ["c"]) == tables.NOT_YET


def test_parameters_are_counted_as_a_built_model_has_them():
    built = build_model(ModelConfig(hidden_size=48, embedding_size=64), seed=0)
    counted = sum(parameter.numel() for parameter in built.parameters())
    assert parameters_of(48, {"model.hidden_size": 12}) == counted


def runs_of(law, noise=0.0, seed=0):
    """Runs of twelve pairs of size and text whose bits are a law's, with noise."""
    rng = np.random.default_rng(seed)
    return [
        {
            "parameters": n,
            "characters_read": d,
            "valid_bits_per_character": law.bits(n, d) + rng.normal(0, noise),
        }
        for n, d in product((1e5, 4e5, 2e6, 6e6), (2e6, 6e6, 2e7))
    ]


LAW = Law(floor=0.8, n0=2e4, alpha=0.25, d0=2e5, beta=0.3)


def test_the_law_that_made_the_numbers_is_found_again():
    runs, law = runs_of(LAW), LAW
    found = fit(runs)
    assert found.bits(3e7, 1e9) == pytest.approx(law.bits(3e7, 1e9), abs=0.02)
    assert [found.bits(n, 6e6) for n in (1e5, 6e6)] == pytest.approx(
        [law.bits(n, 6e6) for n in (1e5, 6e6)], abs=1e-3
    )


def test_the_errors_of_a_law_are_what_other_noise_would_change():
    many = [runs_of(LAW, noise=0.003, seed=seed) for seed in range(6)]
    scatter = np.std([[f.alpha, f.beta] for f in map(fit, many)], axis=0, ddof=1)
    errors = np.mean([[e.alpha, e.beta] for e in map(standard_errors, many[:2])], axis=0)
    # A standard deviation of six has a standard error of a third, the jackknife's are too wide.
    assert all((errors / scatter > 0.5) & (errors / scatter < 3))


def test_runs_of_the_same_sizes_and_texts_are_no_further_evidence():
    runs = runs_of(LAW, noise=0.003)
    once, thrice = (standard_errors(many) for many in (runs, runs * 3))
    assert (thrice.alpha, thrice.beta) == pytest.approx((once.alpha, once.beta), rel=1e-3)


def test_means_of_seeds_name_their_range():
    assert mean_of([1.5], 2) == "1.50"
    assert mean_of([1.0, 2.0, 1.5], 1) == "1.5 (1.0 to 2.0; 3 seeds)"


def written_on(unit: int, units: int = 6, texts: int = 600) -> list[Examples]:
    """Return train, val and test in which one unit alone, noisily, holds the label."""
    rng = np.random.default_rng(0)
    sets = []
    for _ in range(3):
        labels = rng.integers(0, 2, texts)
        features = rng.standard_normal((texts, units)).astype(np.float32)
        features[:, unit] += 3.0 * labels
        sets.append(Examples(features, labels))
    return sets


def test_told_finds_the_unit_that_knows():
    found = told(written_on(unit=4))
    assert found["one_unit"]["index"] == found["best_unit"]["index"] == 4
    for row in found.values():
        low, high = row["test_interval"]
        assert low < 0.9332 < high + 0.02  # what the best cut of two normals 3 apart is worth


def test_a_turn_hides_what_one_unit_holds():
    axes = describe_axes(written_on(unit=2, units=40), seed=0)
    turned = [draw["test_accuracy"] for draw in axes["best_of_turned"]]
    assert axes["best_unit"]["axis"] == 2
    assert axes["best_unit"]["test_accuracy"] > max(turned) + 0.05


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_every_way_of_fitting_learns_and_chooses_on_val(way):
    train, val, test = written_on(unit=1)
    fit = fit_way(way, train, val)
    assert fit.accuracy(test) > 0.9
    assert fit.val_accuracy == pytest.approx(fit.accuracy(val))
    assert fit.used == 6 or way.penalty == "l1"


@pytest.fixture(params=["bytes", "subwords"])
def of_bytes_or_subwords(request, tmp_path, subword_model, subwords):
    """A model of either kind of tokens."""
    if request.param == "bytes":
        return load_model("amazon_1024", compute_dtype=torch.float32)
    save_model(tmp_path, subword_model, text_profile("openai"), {}, tokenizer=subwords)
    return load_model(tmp_path)


def test_title_scores_are_those_of_reading_each_text_with_each_opening(of_bytes_or_subwords):
    loaded = of_bytes_or_subwords
    texts = ["I like it a lot", "no", "it broke after a day and nobody answered"]
    chances = {}
    for opening in ("Great", "Good one", "Bad"):
        tokens = loaded.tokenizer.encode(f" {opening}".encode())
        starts = [loaded.profile.encode(text + TITLE_MARK)[:-1] for text in texts]
        whole = [np.concatenate([loaded.tokenizer.encode(s), tokens]) for s in starts]
        for rows, costs in token_costs(loaded.model, whole, batch_size=2):
            for row, cost in zip(rows, costs, strict=True):
                chances[opening, row] = -np.log(2) * cost[-len(tokens) :].astype(float).sum()
    expected = [
        np.logaddexp(chances["Great", row], chances["Good one", row]) - chances["Bad", row]
        for row in range(3)
    ]
    scores = title_scores(loaded, texts, openings=(("Great", "Good one"), ("Bad",)))
    np.testing.assert_allclose(scores, expected, atol=1e-4)


def test_words_that_tell_are_those_of_one_class():
    texts = ["good film"] * 30 + ["bad film"] * 30
    train = LabelledSet(texts, np.array([1] * 30 + [0] * 30), ("0", "1"))
    odds = telling_words(train)
    assert min(odds, key=odds.__getitem__) == "bad"
    assert max(odds, key=odds.__getitem__) == "good"
    assert odds["film"] == 0


def test_correlations_are_numpys_and_0_for_a_constant_unit():
    rng = np.random.default_rng(0)
    features, values = rng.standard_normal((50, 3)).astype(np.float32), rng.standard_normal(50)
    features[:, 1] = 2.0
    found = correlations(features, values)
    assert found[1] == 0
    assert found[0] == pytest.approx(np.corrcoef(features[:, 0], values)[0, 1], abs=1e-6)


def test_points_of_a_curve_are_spread_evenly_over_the_logarithm():
    assert spread([1, 2, 3, 4], None) == [1, 2, 3, 4]
    assert spread(range(1, 101), 3) == [1, 10, 100]
    assert spread([5, 6], 9) == [5, 6]


def test_selectivity_is_of_the_two_units_that_tell_most_on_train():
    """On test as they are turned on train, so that a unit that turns round scores below 1/2."""
    labels = np.array([0, 0, 1, 1] * 8)
    noise = np.random.default_rng(0).standard_normal(len(labels))
    train = Examples(np.stack([noise, -labels, labels + noise / 4], axis=1), labels)
    test = Examples(np.stack([labels, labels, labels + 0 * noise], axis=1), labels)
    assert selectivity([train, train, test]) == {"units": [1, 2], "areas": [0.0, 1.0]}


def test_repetition_lowers_the_fraction_of_distinct_words():
    assert distinct_words(["a b", "c d"]) == 1
    assert distinct_words(["a a", "a a"]) == 0.25


def test_the_better_rate_of_a_cell_comes_first():
    for cell in ("mlstm", "lstm"):
        bits = [same[0]["valid_bits_per_character"] for _, same in by_rate(cell)]
        assert bits == sorted(bits)
