"""Every result that is kept, and the command that makes it again.

Users replace the words in capitals: DATA is the folder of the published sets, AMAZON a folder of
reviews, CORPUS what scripts/prepare_corpus.py made of them, RUN a run of main.py, TEXTS the folder
that experiments.default_model.texts wrote. OLD, BEFORE and NOW are checkouts of this project.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_utils.published_sets.registry import SETS
from experiments.recurrence.run import measurements
from experiments.studies import STUDIES, read_runs
from experiments.tables import DIRTY
from model.files.shipped import FORMER
from model.files.storage import read_json

HERE = Path(__file__).resolve().parent
MODULE = "python -m experiments."
TURNS = "turns OLD BEFORE NOW"  # checkouts
AND = " && "  # between two commands that make one result
CHECKOUT = "git checkout "  # begins the command of a closed study: the revision that holds its code


@dataclass(frozen=True)
class Result:
    """Files that one command makes."""

    files: str  # a pattern below experiments/; a file belongs to the first result that it matches
    command: str  # or several commands with AND between them
    names: tuple[str, ...] = ()  # of the runs that must each have a file; empty: any will do


@dataclass(frozen=True)
class Kept:
    """A result, and those of its files that exist."""

    result: Result
    paths: Sequence[Path]

    @property
    def contents(self) -> list[Mapping[str, Any]]:
        """The contents of its files."""
        return [read_json(path) for path in self.paths]

    @property
    def revisions(self) -> list[str]:
        """The revisions that made its files, each once."""
        origins = [found["origin"] for found in self.contents if "origin" in found]
        return sorted({origin["git_revision"] for origin in origins})

    @property
    def state(self) -> str:
        """One word: `present`, `absent`, `partial`, `dirty` or `unknown`.

        partial: runs have no file. dirty: measured with uncommitted changes. unknown: no revision
        is named.
        """
        if not self.paths:
            return "absent"
        if set(self.result.names) - {path.stem for path in self.paths}:
            return "partial"
        if not self.revisions:
            return "unknown"
        return "dirty" if any(name.endswith(DIRTY) for name in self.revisions) else "present"

    @property
    def minutes(self) -> float | None:
        """The duration of its command, if its files have it."""
        seconds = [seconds_of(found) for found in self.contents]
        known = [value for value in seconds if value is not None]
        return sum(known) / 60 if known and len(known) == len(seconds) else None


def seconds_of(found: Mapping[str, Any]) -> float | None:
    """Return the duration that a result names; of several runs, their sum."""
    if isinstance(found.get("runs"), list):
        runs = [run.get("training_seconds") for run in found["runs"]]
        return None if not runs or None in runs else float(sum(runs))
    own = found.get("training_seconds", found.get("seconds"))
    return float(own) if isinstance(own, int | float) else None


def kept_results(results: Iterable[Result], folder: Path = HERE) -> Iterator[Kept]:
    """Yield each result with its files below a folder: those that no earlier result has."""
    taken: set[Path] = set()
    for result in results:
        paths = sorted(set(folder.glob(result.files)) - taken)
        taken.update(paths)
        yield Kept(result, paths)


def result_of(file: str) -> Kept:
    """Return the result of a file below experiments/; the file need not exist."""
    return next(kept for kept in kept_results(RESULTS) if Path(file).match(kept.result.files))


def _measured(folder: str, name: str, words: str = "") -> Result:
    """Return a result whose command writes one file with the name of the result."""
    file = f"{folder}/results/{name}.json"
    return Result(file, f"{MODULE}{folder}.{words} --output experiments/{file}")


def _scaling(name: str, words: str = "", figure: str = "") -> Result:
    """Return a scaling study; figure: its file, in the folder of these studies."""
    made = _measured("scaling", name, words)
    drawing = f" --figure experiments/scaling/{figure}" if figure else ""
    return Result(made.files, made.command + drawing)


def _emulated() -> Result:
    """Return the scale model: two commands, of which the second slows the cluster down."""
    file, words = "scaling/results/emulated.json", f"{MODULE}scaling.emulated --output experiments"
    command = f"{words}/{file} --figures experiments/scaling --only"
    kinds = ("allreduce,buckets,skipped", "ethernet,today --stretch 3")
    return Result(file, AND.join(f"{command} {kind}" for kind in kinds))


def _closed(revision: str, made: Result) -> Result:
    """Return a result that is kept as it is: its code is in the revision that measured it."""
    return Result(made.files, f"{CHECKOUT}{revision}{AND}{made.command}")


def _of(model: str, made: Result) -> Result:
    """Return a result of a shipped model; of a former one, its weights are in an old revision."""
    return _closed(FORMER[model], made) if model in FORMER else made


def _texts(name: str, words: str = "") -> Result:
    file = f"default_model/results/{name}.json"
    command = f"{MODULE}default_model.texts {SELECTED}{words} --report experiments/{file}"
    return Result(file, command)


def _plan(cluster: str, words: str) -> Result:
    file = f"scaling/results/plan_{cluster}.json"
    cluster_file = f"configs/clusters/{cluster}.toml"
    command = f"python scripts/plan.py --model 4096 --cluster {cluster_file} {words}"
    return Result(file, f"{command} --output experiments/{file}")


def _reproductions() -> Iterator[Result]:
    """Yield the results on the published sets, with the plain and with the shipped models."""
    module = f"{MODULE}reproduction.run --data DATA --work runs/reproduction"
    for model, names in (
        ("amazon_1024", SETS), ("amazon_subword_1024", ("sst", "mr", "imdb")),
        ("sentiment_1024", ("sst",)),
    ):  # fmt: skip
        for name in names:
            file = f"reproduction/results/{model}/{name}.json"
            untrained = " --untrained 0" * (name in ("imdb", "mr", "semeval"))
            fewer_bits = " --precision int8" * (name == "imdb")
            words = f"--model {model} --tasks {name}{untrained}{fewer_bits}"
            yield _of(model, Result(file, f"{module} {words}"))
    for name in (
        "amazon_1024_full", "amazon_1024_continued", "amazon_1024_continued_again",
        "amazon_films_1024", "amazon_subword_1024_216m",
        "amazon_subword_1024_62m", "amazon_subword_1024_355m", "amazon_subword_1024_long",
        "amazon_subword_1024_more", "amazon_subword_1024_seed_1", "amazon_subword_1024_full",
        "amazon_subword_1024_all",
        "sentiment_1024_full",
    ):  # fmt: skip
        file = f"reproduction/results/{name}/sst.json"
        yield Result(file, f"{module} --model RUN --name {name} --tasks sst")
    for name in SETS:
        words = f"{MODULE}reproduction.words --data DATA --tasks {name}"
        yield Result(f"reproduction/results/tfidf/{name}.json", words)
    earlier = f"{module} --model amazon_1024 --name amazon_1024_172m --tasks sst"
    yield _closed("5d98f887d671", Result("reproduction/results/amazon_1024_172m/sst.json", earlier))


RUN_FINETUNING = f"{MODULE}finetuning.run --model amazon_1024 --data DATA --work runs/finetuning"
RUN_RECIPE = f"{MODULE}recipe.run --corpus CORPUS --work runs/recipe"
SWEEP = (
    "--worlds 1,2 --hidden 64,128 --exchanges fp32,fp16,flat,powersgd,adasum --buckets 0.1,25 "
    "--windows 1,4 --lanes-per-rank 16 --window 32 --blocks 3 --steps 5 --repeats 3"
)
SKIPPED = (
    '--skip "gzip alone, zlib" "gzip alone, isal" "pandas read_json" 2018 '
    '"ours, plain, 1 process" "ours, plain, 2 processes"'
)
SELECTED = (
    "--amazon AMAZON/reviews.jsonl.gz --imdb DATA/imdb/imdb_train.jsonl.gz "
    "--sst DATA/sst/train.csv --sst-val DATA/sst/val.csv --output TEXTS "
    "--held-out DATA/sst/val.csv DATA/sst/test.csv "
    "DATA/semeval/val.txt DATA/semeval/test.txt DATA/imdb/imdb_test.jsonl.gz"
)
EVALUATE = "python scripts/evaluate.py --data CORPUS"
# Runs of subwords whose features and units were measured.
SUBWORD_RUNS = tuple(
    (f"amazon_subword_1024_{run}", "RUN")
    for run in ("355m", "long", "more", "seed_1", "full", "all")
)
FEATURES = "run --model amazon_1024 --data DATA --work runs/features"

RESULTS: tuple[Result, ...] = (
    *_reproductions(),
    *(
        _of(model, Result(f"neuron/results/{model}/neuron.json",
                          f"{MODULE}neuron.run --model {model}{unit} --data DATA "
                          "--work runs/neuron"))
        for model, unit in (
            ("amazon_1024", ""), ("amazon_subword_1024", " --neuron 410"), ("sentiment_1024", ""),
        )
    ),
    *(
        _of(model, Result(f"neuron/results/{model}/areas.json",
                          f"{MODULE}neuron.areas --model {model} --data DATA "
                          f"--output experiments/neuron/results/{model}/areas.json"))
        for model in ("amazon_1024", "amazon_subword_1024", "sentiment_1024")
    ),
    *(
        _closed("4cad3e8ab457", Result(f"finetuning/results/amazon_1024/{task}_{files}.json",
                                       f"{RUN_FINETUNING} --tasks {task}{words}"))
        for task in ("sst", "semeval")
        for files, words in (
            ("*_[12]", " --variants frozen frozen_hidden --seeds 3"),
            ("[bc]*", ""), ("*", ""),  # the baselines; the ways to fine-tune
        )
    ),
    *(
        _of(model, Result(
            f"shipped/results/bits_{name}.json",
            f"{EVALUATE} --model {model} --output experiments/shipped/results/bits_{name}.json"))
        for name, model in (
            ("amazon_1024", "amazon_1024"), ("amazon_1024_full", "RUN"), ("continued", "RUN"),
            ("continued_again", "RUN"), ("films", "RUN"),
            ("amazon_subword_1024", "amazon_subword_1024"), ("amazon_subword_1024_full", "RUN"),
            ("sentiment_1024", "sentiment_1024"), ("stars_1024", "stars_1024"),
            ("stars_512", "stars_512"),
        )
    ),
    _closed("5d98f887d671", Result("shipped/results/bits_172m.json",
                                   f"{EVALUATE} --model amazon_1024")),
    *(
        _of(model, _measured("shipped", f"memorization_{model}",
                             f"memorization --model {model} --corpus CORPUS"))
        for model in ("amazon_1024", "amazon_subword_1024", "sentiment_1024")
    ),
    _measured("shipped", "near_copies", "near_copies --model amazon_1024 --corpus CORPUS"),
    _closed("4e5b29d8ebb3", _measured(
        "shipped", "curve",
        "probe RUN --train DATA/sst/train.csv --val DATA/sst/val.csv --apart 18000000")),
    *(
        _of(name, Result(f"default_model/results/{name}.json",
                         f"{MODULE}default_model.study --method {name} --data DATA --texts TEXTS"))
        for name in ("stars_1024", "states", "ngrams", "stars_512", "sentiment_1024", "tfidf",
                     "vader", "textblob")
    ),
    Result("default_model/results/films.json",
           f"{MODULE}shipped.select_reviews DATA/imdb/imdb_unlabelled.jsonl.gz "
           "--output films_marked.jsonl --held-out DATA/sst/val.csv DATA/sst/test.csv "
           "rt-polarity-neg.txt rt-polarity-pos.txt semeval-val.txt semeval-test.txt "
           "DATA/imdb/imdb_test.jsonl.gz"),
    *(
        Result(f"default_model/results/with_bag_{name}.json",
               f"{MODULE}default_model.ship {model} --texts TEXTS --ngrams WORK/ngrams "
               f"--name {name} --output WORK/shipped --report "
               f"experiments/default_model/results/with_bag_{name}.json")
        for name, model in (
            ("former", "STEP"), ("stars_512", "stars_512"), ("ngrams_512", "STEP"),
            ("ngrams_256", "STEP"), ("plain_256", "STEP"), ("films_1024", "STEP"),
            ("mean_0.25", "MEAN"), ("mean_0.5", "MEAN"), ("mean_0.75", "MEAN"),
            ("mean_seed_1", "MEAN"), ("mean_of_both", "MEAN"),
        )
    ),
    _texts("parts_texts", " --parts 3 --whole 3000"),
    _texts("anew_texts", " --whole 25000 --longest-whole 100000"),
    Result("default_model/results/second_pass_texts.json",
           f"{MODULE}default_model.second_pass texts TEXTS --output WORK/second"),
    _closed("56c4a61f2649", Result(
        "default_model/results/former.json",
        f"{MODULE}default_model.study --method stars_1024 --data DATA")),
    _closed("f65ccf37f380", Result(
        "default_model/results/second_bag.json",
        f"{MODULE}default_model.study --method stars_1024 --data DATA")),
    _texts("small_texts"),
    _texts("ngrams_texts", " --whole 25000 --longest-whole 100000"),
    _texts("sixth_texts", " --whole 1500"),
    _closed("48aa8a398f08", Result(
        "default_model/results/texts.json",
        f"{MODULE}default_model.texts {SELECTED}")),
    _closed("48aa8a398f08", Result(
        "default_model/results/second_texts.json",
        f"{MODULE}default_model.second_texts TEXTS --output WORK/second")),
    _closed("b9c08db491f1", Result(
        "default_model/results/third_texts.json",
        f"{MODULE}default_model.later_texts third TEXTS --output WORK/third --amazon "
        "AMAZON/reviews.jsonl.gz --held-out DATA/sst/val.csv DATA/sst/test.csv "
        "DATA/semeval/val.txt DATA/semeval/test.txt DATA/imdb/imdb_test.jsonl.gz")),
    Result("shipped/results/selection.json",
           f"{MODULE}shipped.select_reviews AMAZON/reviews.jsonl.gz --title last "
           "--output selected.jsonl --held-out DATA/sst/val.csv DATA/sst/test.csv "
           "rt-polarity-neg.txt rt-polarity-pos.txt semeval-val.txt semeval-test.txt "
           "DATA/imdb/imdb_test.jsonl.gz"),
    _closed("40d996876e13", Result("main_job/results/[!c]*.json",
                                   "bash experiments/main_job/run.sh DATA WORK")),
    Result("tour/results/transfer.json", "bash scripts/quickstart.sh"),
    Result("tour/results/first_answer.json",
           f"{MODULE}tour.first_answer --output experiments/tour/results/first_answer.json"),
    *(
        _closed(revision, Result(f"recipe/results/{files}.json", f"{RUN_RECIPE}{words}"))
        for files, revision, words in (
            ("thin_windows/before", "e7f43c04e735", " epochs_4"),
            ("thin_windows/after", "5ee8ecd9137b", " epochs_4"),
            ("first_corpus/*", "4d3eaed92e4e", ""), ("*", "36b45e025a88", ""),
        )
    ),
    Result("time_to_target/results/*.json",
           f"{MODULE}time_to_target.run --corpus CORPUS --work runs/time_to_target"),
    *(
        Result(f"recurrence/results/{name}.json", f"python experiments/recurrence/run.py {name}")
        for name in measurements()
    ),
    *(
        Result(f"recurrence/results/amx_{name}_{H}.json",
               f"python scripts/benchmark.py {words} --hidden-size {H} --window 128 --dtype bf16 "
               "--threads 2")
        for H in (512, 1024)
        for name, words in (
            ("training", "recurrence --skip loop_2018 reference"),
            ("inference", "recurrence --inference --skip loop_2018 reference"),
            ("parts", "step --optimizer muon --parts"),
        )
    ),
    *(
        _measured("recurrence", f"amx_turns_{piece}_{H}",
                  f"{TURNS} --piece {piece} --hidden-size {H} --rounds 15")
        for piece in ("step", "recurrence", "inference")
        for H in (512, 1024)
    ),
    Result("recurrence/results/amx_busy.json",
           "python scripts/benchmark.py busy "
           "--output experiments/recurrence/results/amx_busy.json"),
    _closed("226d1cf0710f", Result("recurrence/results/amx_split_bf16.json",
                                   f"{MODULE}recurrence.split_bf16")),
    Result("recurrence/results/gpu_check.json", "bash scripts/gpu_check.sh gpu_check"),
    *(
        Result(f"recurrence/results/gpu_recurrence_{H}.json",
               f"python scripts/benchmark.py recurrence --hidden-size {H} --batch 256 --window 256 "
               "--dtype bf16 --skip loop_2018 reference "
               f"--output experiments/recurrence/results/gpu_recurrence_{H}.json")
        for H in (4096, 1024)
    ),
    Result("recurrence/results/amx_projecting.json",
           f"{MODULE}recurrence.projecting --rounds 5 --inputs 64 128 256 512 1024 2048"),
    _measured("recurrence", "amx_projecting_8_lanes", "projecting --rounds 9 --lanes 8"),
    *(
        _measured("recurrence", f"turns_{name}{dtype}_{H}",
                  f"{TURNS} --piece {piece} --hidden-size {H} --dtype {dtype}")
        for name, piece in (("step_", "step"), ("", "recurrence"))
        for dtype in ("fp32", "bf16")
        for H in (512, 1024)
        if (name, dtype, H) != ("step_", "fp32", 1024)
    ),
    Result("recurrence/results/gpu_training.json",
           "python main.py --config configs/cpu_1024.toml --data.corpus CORPUS "
           "--train.device cuda --train.precision bf16 --train.steps 500 --data.lanes 256"),
    _closed("226d1cf0710f", Result("recurrence/results/split_bf16.json",
                                   f"{MODULE}recurrence.split_bf16")),
    Result("recurrence/results/precisions.json",
           f"{MODULE}recurrence.precisions --characters 200000 --rounds 9 "
           "--data DATA/sst/test.csv DATA/imdb/imdb_test.jsonl.gz"),
    _measured("featurizing", "imdb",
              "run --model amazon_1024 --input DATA/imdb/imdb_test.jsonl.gz --texts 256 "
              "--rounds 2"),
    *(
        _closed(revision, _measured("data", name, words))
        for revision, name, words in (
            ("89329bf0e1b1", "speed", "benchmark large.jsonl.gz"),
            ("76e0526ecb60", "memory_4gb", f"benchmark large4.jsonl.gz --rounds 1 {SKIPPED}"),
            ("89329bf0e1b1", "stream", "stream CORPUS"),
        )
    ),
    _closed("76e0526ecb60", _measured("exchange", "readiness", "readiness")),
    _closed("ad95f99187ea", _measured(
        "exchange", "replay", "replay --profiles experiments/exchange/results/readiness.json")),
    _closed("d6ac416e9f8d", _measured("elastic", "faults", "run")),
    Result("scaling/results/published.json",
           "python experiments/scaling/published.py --output "
           "experiments/scaling/results/published.json "
           "--figure experiments/scaling/figures/published.png"),
    _scaling("replayed", "replayed"),
    _scaling("regressed", "regressed"),
    _plan("dgx1v_ethernet", "--characters 38.3e9"),
    _plan("dgx1v_infiniband", "--characters 38.3e9"),
    _plan("h200", "--characters 38.3e9"),
    _plan("h200_nodes", "--characters 38.3e9"),
    _plan("mixed_lab", "--lanes-per-gpu 128"),
    Result("scaling/results/sweep_gloo/*.json",
           f"{MODULE}scaling.sweep --output experiments/scaling/results/sweep_gloo {SWEEP}"),
    _scaling("measured_gloo", "measured --sweep experiments/scaling/results/sweep_gloo",
             "figures/measured_gloo.png"),
    _closed("6d2e55ca43c6", _emulated()),
    _closed("9a20bb1ed26d", _scaling(
        "convergence", "convergence --corpus CORPUS --work runs/convergence", "convergence.png")),
    _closed("6a509f7e3d2b", _scaling("interpreter", "interpreter", "interpreter.png")),
    _closed("ab51da356715", _scaling(
        "precision", "precision --corpus CORPUS --work runs/precision", "precision.png")),
    _closed("d788d7cc281c", Result(
        "epochs/before/results/*.json",
        f"{MODULE}studies epochs --again --corpus CORPUS --data DATA --work runs/epochs")),
    *(
        Result(f"{study}/results/*.json",
               f"{MODULE}studies {study} --again --corpus CORPUS --data DATA --work runs/{study}",
               tuple(run.name for run in read_runs(study)))
        for study in STUDIES
    ),
    *(
        _measured("features", name,
                  f"run --model {model} --data DATA --work runs/features --most-texts 1000")
        for name, model in (
            ("amazon_1024", "amazon_1024"), ("amazon_subword_1024", "amazon_subword_1024"),
            ("amazon_subword_1024_216m", "RUN"), *SUBWORD_RUNS,
        )
    ),
    *(
        _measured("features", f"amazon_1024_beside_{name}",
                  f"{FEATURES} --beside {model} --most-texts 1000 --only 'cell last' 'cell mean' "
                  "'cell last + cell mean' 'cell last + cell mean + cell max + cell min'")
        for name, model in (
            ("earlier", "RUN"), ("subword", "amazon_subword_1024"), ("subword_more", "RUN"),
        )
    ),
    _measured("features", "amazon_1024_titles", f"{FEATURES} --sets sst mr --corpus CORPUS --only "
              "'chances of titles' 'cell last + cell mean + chances of titles' "
              "'cell last + cell mean + cell max + cell min + chances of titles'"),
    _measured("features", "amazon_1024_prompts",
              "prompts --model amazon_1024 --data DATA --figure experiments/features/prompts.png"),
    *(
        _measured("features", f"{name}_prompts", f"prompts --model {model} --data DATA --sets sst")
        for name, model in (
            ("amazon_subword_1024", "amazon_subword_1024"), *SUBWORD_RUNS,
        )
    ),
    *(
        _measured("features", f"{name}_twice", f"twice --model {name} --data DATA")
        for name in ("amazon_1024", "amazon_subword_1024")
    ),
    *(
        _measured("features", f"{model}_imdb",
                  f"run --model {model} --data DATA --work runs/features --sets imdb "
                  "--most-texts 25000 --precision int8 --only 'cell mean' 'cell last + cell mean' "
                  "'cell last + cell mean + cell max + cell min'")
        for model in ("amazon_1024", "amazon_subword_1024")
    ),
    *(
        Result(f"subwords/results/{name}.json",
               f"{EVALUATE} --model RUN --output experiments/subwords/results/{name}.json")
        for name in ("bits", "bits_216m", "bits_62m", "bits_long", "bits_more")
    ),
    *(
        Result(f"billion/results/bits_{name}.json",
               f"{EVALUATE} --model RUN --output experiments/billion/results/bits_{name}.json")
        for name in ("seed_1", "dropout", "all", "wide")
    ),
    Result("subwords/results/others.json",
           f"{MODULE}shipped.select_reviews AMAZON/*.jsonl.gz --title last --licences others "
           "--output others.jsonl --held-out DATA/sst/val.csv DATA/sst/test.csv "
           "rt-polarity-neg.txt rt-polarity-pos.txt semeval-val.txt semeval-test.txt "
           "DATA/imdb/imdb_test.jsonl.gz --held-out-corpora CORPUS"),
    _closed("a97ccdcc914a", _measured(
        "curve", "units_512", "run runs/sizes/units_512_18m_seed_0 --data DATA")),
    _measured("curve", "units_1024", "run RUN --data DATA --points 28"),
    _measured("curve", "units_1024_short_warmup", "run RUN --data DATA"),
    *(
        _of("sentiment_1024", _measured(
            "generation", model, f"run --model {model} --reader {reader} --data DATA"))
        for model, reader in (("sentiment_1024", "amazon_1024"), ("amazon_1024", "sentiment_1024"))
    ),
    _measured("generation", "amazon_subword_1024",
              "run --model amazon_subword_1024 --reader amazon_1024 --data DATA"),
    _closed("326109c09891", _measured(
        "unequal", "throttled", "run --corpus CORPUS --parts 0.5 0.25 --steps 80 --rounds 2")),
)  # fmt: skip
