"""Fine-tune one model in five ways on SST and SemEval-2018 E-c, and measure baselines.

python -m experiments.finetuning.run --model amazon_1024 --data DATA --work runs/finetuning
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from configs import command
from data_utils.labelled import LabelledSet
from data_utils.options import Model
from data_utils.provenance import describe_origin
from model.commands import program
from model.errors import InputError
from model.files.storage import read_json, write_json
from model.files.weights import LoadedModel, load_model, model_digest
from model.language_model import untrained_like
from training.parallel.distributed import choose_device
from transfer.experiment import SPLITS
from transfer.features import FeatureCache
from transfer.finetuning.directory import FinetuningDirectory
from transfer.finetuning.experiment import run_finetuning

from .baseline import baselines, with_plutchik
from .table import write_table
from .variants import TASKS, Sets, Variant, variants_of

HERE = Path(__file__).resolve().parent
DRAWN_BY = 0  # seed of the texts that --limit takes
Way = Literal["frozen", "frozen_hidden", "learned", "learned_with_lm", "untrained"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Fine-tune one model on SST and SemEval, five ways, into results/<name>/.

    A way that has its result is not trained again; remove the file to repeat it.
    """

    model: Model = "default"
    name: str | None = None
    """Name of the folder of results; absent, that of --model."""
    data: Path
    """The folder that holds sst/ and semeval/."""
    work: Path = Path("runs/finetuning")
    """Folder for the fine-tuned models; an interrupted training continues there."""
    tasks: tuple[Literal[*TASKS], ...] = tuple(TASKS)
    """Names of the tasks."""
    variants: tuple[Way, ...] = ()
    """Names of the ways; absent, all."""
    seeds: int = 1
    """Number of seeds of each way; a seed draws heads, order, dropout and untrained weights."""
    epochs: int = 5
    """Passes over the training set."""
    limit: int | None = None
    """Most texts of each set, for a trial with a folder of its own; absent, all."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: a GPU if there is one."""
    results: Path = HERE / "results"
    """The folder of the models' results."""

    def __post_init__(self) -> None:
        for name in ("seeds", "epochs", "limit"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"--{name} {value}: it must be 1 or above")

    @property
    def filed_under(self) -> str:
        """The folder of the results; a trial with a limit has its own."""
        name = self.name or Path(self.model).name
        return name if self.limit is None else f"{name}_limit_{self.limit}"


def main() -> int:
    return study(command.parse(Options, __doc__))


def study(options: Options) -> int:
    """Measure what has no result yet, and print the tables; return the exit code."""
    folder = options.results / options.filed_under
    folder.mkdir(parents=True, exist_ok=True)
    for task in options.tasks:
        sets = [limited(part, options.limit) for part in TASKS[task].read(options.data).sets]
        for name, scores in baselines(sets).items():
            write_json(folder / f"{task}_{name}.json", described(scores, sets))
        for seed in range(options.seeds):
            if not tune(task, sets, seed, folder, options):
                return program.INTERRUPTED
    print(write_table(folder))
    return 0


def tune(task: str, sets: Sets, seed: int, folder: Path, options: Options) -> bool:
    """Fine-tune in every way that has no result yet; return False if it was stopped."""
    known = variants_of(options.epochs, seed)
    cache = FeatureCache(options.work / options.filed_under / task / "features")
    for way in options.variants or known:
        label = f"{way}_{seed}" if seed else way
        path = folder / f"{task}_{label}.json"
        loaded = source_of(options.model, known[way], seed)
        if not is_measured(path, loaded, known[way], sets):
            work = options.work / options.filed_under / task / label
            device = choose_device(options.device)
            result = fine_tuned(loaded, sets, known[way], work, device, cache)
            if result is None:
                print(f"stopped in {work}; the same command continues")
                return False
            write_json(path, result)
        print(line(task, label, read_json(path)), flush=True)
    return True


def limited(part: LabelledSet, limit: int | None) -> LabelledSet:
    """Return some texts of a set, drawn by a seed."""
    order = np.random.default_rng(DRAWN_BY).permutation(len(part.texts))
    return part if limit is None else part.subset(np.sort(order[:limit]))


def described(scores: dict[str, Any], sets: Sets) -> dict[str, Any]:
    """Return the content of a baseline's file."""
    return {"examples": sizes(sets), "test": scores, "origin": describe_origin()}


def sizes(sets: Sets) -> dict[str, int]:
    """Return the number of texts of each set."""
    return {name: len(part.texts) for name, part in zip(SPLITS, sets, strict=True)}


def source_of(model: str, variant: Variant, seed: int) -> LoadedModel:
    """Return the model from which a way starts; it may have random weights."""
    loaded = load_model(model, compute_dtype=torch.float32)
    if variant.pretrained:
        return loaded
    untrained = untrained_like(loaded.model, seed)
    return replace(loaded, model=untrained, provenance={"untrained": True})


def is_measured(path: Path, source: LoadedModel, variant: Variant, sets: Sets) -> bool:
    """Say whether a file holds the result of this model with these settings and texts."""
    if not path.is_file():
        return False
    found = read_json(path)
    asked = {"config": json.loads(json.dumps(asdict(variant.config))), "examples": sizes(sets)}
    same = all(found.get(key) == value for key, value in asked.items())
    return same and found["model"].get("digest") == model_digest(source.model)


def fine_tuned(
    loaded: LoadedModel,
    sets: Sets,
    variant: Variant,
    work: Path,
    device: torch.device,
    cache: FeatureCache,
) -> dict[str, Any] | None:
    """Fine-tune in a folder of its own, or continue there; return the results, None if stopped."""
    directory = FinetuningDirectory(work)
    resume = directory.config.is_file()
    result = run_finetuning(
        loaded, sets, work, variant.config, device=device, resume=resume, cache=cache
    )
    if result is None:
        return None
    with np.load(directory.choices) as choices:
        test = with_plutchik(result["test"], sets[-1].labels, choices["test"])
    return {**result, "test": test}


def line(task: str, label: str, result: dict[str, Any]) -> str:
    """Return the scores on the test set in one line."""
    keys = ("accuracy", "f1_macro", "f1_micro", "jaccard_samples", "f1_plutchik")
    test = result["test"]
    cells = (f"{key} {test[key]:.4f}" for key in keys if key in test)
    return f"{task:<8} {label:<18} {', '.join(cells)}; epoch {result['best_epoch']}"


if __name__ == "__main__":
    command.run(main)
