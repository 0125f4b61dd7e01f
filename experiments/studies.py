"""Train the runs of a study, and measure what each knows of sentiment.

python -m experiments.studies sizes --corpus data/reviews --data DATA --work runs/sizes

A study is a folder of experiments/ with a runs.toml: [base] holds the keys of every run's config,
[runs.NAME] what one run changes, with its characters, seeds and ranks, the name of a corpus beside
--corpus if it reads another, and the run after which it begins, with that run's weights, if it
does. Each run and seed leaves one file in the study's results/.
"""

import json
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import torch
import tyro

from configs import command
from data_utils.labelled import LabelledSet
from data_utils.published_sets.registry import SETS
from experiments.levers.widening import widened
from experiments.training_runs import Recipe, measure, weights_at_end
from model.errors import InputError
from model.features import FeatureKind
from model.files.storage import read_json, write_json
from model.files.weights import LoadedModel, load_model, save_model
from transfer.experiment import featurize_sets
from transfer.features import FeatureCache
from transfer.neuron.ranking import fit_cuts
from transfer.regression import Examples, accuracy_interval, find_neuron, fit_regression

HERE = Path(__file__).resolve().parent
STUDIES = (
    "sizes", "peers", "lamb", "confounders", "ngrams", "speedrun", "epochs", "levers", "muon",
    "titles",
)  # fmt: skip
POOLINGS = ("last", "mean")

Runs = Sequence[Mapping[str, Any]]  # results of one name, each of another seed


@dataclass(frozen=True)
class Options:
    """Train the runs of a study; without names, all that have no result yet, or failed."""

    study: Annotated[str, tyro.conf.Positional]
    """A folder of experiments/ that holds a runs.toml."""
    names: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Runs, as NAME or NAME_seed_N."""
    corpus: Path = Path("data/reviews")
    """A prepared corpus."""
    data: Path = Path("data")
    """The folder of the published sets."""
    work: Path = Path("runs")
    """Where the runs are written."""
    threads: int = 2
    """Threads of each process of a run."""
    again: bool = False
    """Without names: train also the runs that have a result."""


@dataclass(frozen=True)
class Run(Recipe):
    """A recipe, how many processes train it together, and the run that it continues, if any."""

    ranks: int = 1
    after: str = ""

    @property
    def names(self) -> tuple[str, str]:
        """What a user may call it: its name, or that of all its seeds."""
        return self.name, self.name.rpartition("_seed_")[0]


def main() -> None:
    train_study(command.parse(Options, __doc__), train)


def train_study(
    options: Options, train: Callable[[Run, Options], Mapping[str, Any]], here: Path = HERE
) -> None:
    """Give each run of a study in `here` that is wanted to `train`, and write what it returns."""
    runs = list(read_runs(options.study, here))
    known = [name for run in runs for name in run.names]
    if unknown := [name for name in options.names if name not in known]:
        raise InputError(
            f"no such run: {', '.join(unknown)}; known: {', '.join(run.name for run in runs)}"
        )
    whole = whole_results(options.study, here=here)
    chosen = [run for run in runs if is_wanted(run, options, whole)]
    if not chosen:
        print(f"all {len(runs)} runs have a result; --again trains them again")
        return
    for run in chosen:
        result = train(run, options)
        path = here / options.study / "results" / f"{run.name}.json"
        path.parent.mkdir(exist_ok=True)
        write_json(path, result)
        print(f"{run.name:<28} {result['valid_bits_per_character']} {result['failure']}")


def is_wanted(run: Run, options: Options, whole: Mapping[str, Any]) -> bool:
    """Whether the user named a run, or named none and it has no whole result."""
    if options.names:
        return any(name in options.names for name in run.names)
    return options.again or run.name not in whole


def whole_results(study: str, names: str = "*", here: Path = HERE) -> dict[str, dict[str, Any]]:
    """Return a study's results by their runs' names; not those of runs that failed."""
    paths = sorted((here / study / "results").glob(f"{names}.json"))
    found = {path.stem: read_json(path) for path in paths}
    return {name: result for name, result in found.items() if not result.get("failure")}


def read_runs(study: str, here: Path = HERE) -> Iterator[Run]:
    """Yield each run of a study with each of its seeds, in the order of its file."""
    path = here / study / "runs.toml"
    if not path.is_file():
        raise InputError(f"{path}: there is no such study")
    found = tomllib.loads(path.read_text())
    for name, given in found["runs"].items():
        changes = dict(given)
        characters, seeds = changes.pop("characters"), changes.pop("seeds", [0])
        ranks, corpus = changes.pop("ranks", 1), changes.pop("corpus", "")
        after = changes.pop("after", "")
        for seed in seeds:
            keys = {**found["base"], **changes, "seed": seed}
            before = after and f"{after}_seed_{seed}"
            yield Run(f"{name}_seed_{seed}", characters, keys, corpus, ranks, before)


def train(run: Run, options: Options) -> dict[str, Any]:
    """Train a run and return its result, with what it knows of SST."""
    sst = SETS["sst"].read(options.data).sets  # before the hours of training, lest it is missing
    folder = options.work / run.name
    begun = replace(run, keys={**run.keys, **start_of(run, options.work)})
    result = measure(begun, options.corpus, folder, options.threads, run.ranks)
    result |= {"keys": run.keys, "after": run.after}
    if not result["failure"]:
        torch.set_num_threads(options.threads)
        loaded = load_model(weights_at_end(folder), compute_dtype=torch.float32)
        result |= what_is_known(loaded, sst)
    return json.loads(json.dumps(result))


def start_of(run: Run, work: Path) -> dict[str, str]:
    """Return the key that names the weights of the run before, widened if this one has more units.

    Raises InputError if that run has not ended in `work`.
    """
    if not run.after:
        return {}
    place = weights_at_end(work / run.after)
    before = load_model(place, compute_dtype=torch.float32)
    if before.model.config.hidden_size < run.keys["model.hidden_size"]:
        place = work / f"{run.after}_widened"
        wide = widened(before.model, run.keys["seed"])
        save_model(place, wide, before.profile, before.provenance)
    return {"train.start_from": str(place.resolve())}


def what_is_known(loaded: LoadedModel, sets: list[LabelledSet]) -> dict[str, Any]:
    """Return a model's size, and the accuracies of its features for each set and pooling."""
    return {
        "parameters": sum(parameter.numel() for parameter in loaded.model.parameters()),
        "sst": {pooling: told(parts) for pooling, parts in read_features(loaded, sets).items()},
    }


def read_features(loaded: LoadedModel, sets: list[LabelledSet]) -> dict[str, list[Examples]]:
    """Return the features of train, val and test, by the way of pooling."""
    kind = FeatureKind(pooling=POOLINGS)
    with tempfile.TemporaryDirectory() as folder:
        pooled = featurize_sets(loaded.model, loaded, sets, FeatureCache(Path(folder), kind))
    units = loaded.model.config.hidden_size
    return {
        pooling: [part.units(range(i * units, (i + 1) * units)) for part in pooled]
        for i, pooling in enumerate(POOLINGS)
    }


def told(sets: list[Examples]) -> dict[str, Any]:
    """Return the test accuracies of regressions on all features, and on one unit.

    `one_unit` has the largest weight in the regression, as in the papers; `best_unit` is the best
    by itself on train.
    """
    train, val, test = sets
    regression = fit_regression(train, val)
    neuron = find_neuron(regression, train, val)
    cuts = fit_cuts(train)
    best = int(cuts.accuracies(train).argmax())
    accuracies = {
        "all_units": regression.accuracy(test),
        "one_unit": neuron.regression.accuracy(neuron.column(test)),
        "best_unit": float(cuts.accuracies(test)[best]),
    }
    rows = {name: tested(value, len(test.labels)) for name, value in accuracies.items()}
    rows["all_units"]["val_accuracy"] = regression.val_accuracy
    rows["one_unit"]["index"] = neuron.index
    rows["best_unit"]["index"] = best
    return rows


def tested(accuracy: float, texts: int) -> dict[str, Any]:
    """Return a test accuracy with its interval."""
    return {"test_accuracy": accuracy, "test_interval": accuracy_interval(accuracy, texts)}


def by_name(study: str, here: Path = HERE) -> dict[str, list[dict[str, Any]]]:
    """Return a study's whole results of all seeds by their run's name, most bits first."""
    runs: dict[str, list[dict[str, Any]]] = {}
    for name, result in whole_results(study, here=here).items():
        runs.setdefault(name.partition("_seed_")[0], []).append(result)
    return dict(sorted(runs.items(), key=lambda pair: -mean_bits(pair[1])))


def bits_by_seed(runs: Runs) -> dict[int, float]:
    """Return the bits per character of each seed's run."""
    return {run["keys"]["seed"]: run["valid_bits_per_character"] for run in runs}


def further_bits(runs: Runs, base: Runs) -> list[float]:
    """Return by how much runs have more bits than those of a base with the same seeds."""
    bits, of_base = bits_by_seed(runs), bits_by_seed(base)
    return [bits[seed] - of_base[seed] for seed in bits.keys() & of_base.keys()]


def against(runs: Runs, base: Runs) -> str:
    """Return the mean of `further_bits`."""
    return f"{fmean(further_bits(runs, base)):+.3f}"


def mean_bits(runs: Runs) -> float:
    """Return the mean over seeds."""
    return fmean(bits_by_seed(runs).values())


def bits_cell(same: Runs) -> str:
    """Return the bits per character on valid, the mean of seeds."""
    return mean_of([run["valid_bits_per_character"] for run in same], 3)


def sst_cell(same: Runs, pooling: str, units: str = "all_units") -> str:
    """Return the accuracy on SST in per cent, the mean of seeds."""
    return mean_of([100 * run["sst"][pooling][units]["test_accuracy"] for run in same], 1)


def sst_cells(same: Runs) -> Iterator[str]:
    """Yield the accuracies on SST by all units: of the last state, of the mean state."""
    yield from (sst_cell(same, pooling) for pooling in POOLINGS)


def mean_of(values: Sequence[float], digits: int) -> str:
    """Return the mean of several seeds with their range; the value if there is one seed."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    ends = f"{min(values):.{digits}f} to {max(values):.{digits}f}"
    return f"{fmean(values):.{digits}f} ({ends}; {len(values)} seeds)"


if __name__ == "__main__":
    command.run(main)
