"""Which regularisers help a model that reads the same text many times.

python -m experiments.recipe.rereading --corpus CORPUS --runs base weight_decay_0.1 --seeds 0 1 2
"""

import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.optimize import brentq, curve_fit
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from configs import command
from data_utils.corpus import Corpus, open_corpus
from data_utils.lanes import DataConfig, lanes_of, settle_shuffle, taken
from data_utils.provenance import describe_origin
from experiments.tables import markdown, origins
from model.bounds import PositiveInt
from model.files.storage import read_json, write_json
from model.layers.config import ModelConfig
from model.layers.language_model import build_model
from model.layers.mlstm import MlstmLayer
from training.evaluation import evaluate_split
from training.optimizers.optim import OptimConfig
from training.parallel.batch import as_batch
from training.parallel.distributed import World
from training.trainer import TrainConfig, Trainer
from transfer.plots import drawing, save_png

HERE = Path(__file__).resolve().parent
RUNS = tomllib.loads(HERE.joinpath("rereading.toml").read_text(encoding="utf-8"))
RESULTS = HERE / "results" / "rereading"
CLOSED = ("label_smoothing_0.05", "embedding_dropout_0.1")  # runs of revision 2cab8f42
SHOWN = {"base", "weight_decay_0.05", "passes_24", "weight_decay_0.05_passes_24"}
ALONE = World(0, 1, torch.device("cpu"))
RATE: dict[str, Any] = {"name": "muon", "lr": 1e-2, "warmup": 0.02, "clip_norm": 1.0}
LANES = 64


@dataclass(frozen=True, kw_only=True)
class Options:
    """Train small models on a little text, many passes, each with one change of the recipe."""

    corpus: Path
    """A corpus made by scripts/prepare_corpus.py."""
    runs: tuple[str, ...] = tuple(RUNS)
    """Names of the runs in rereading.toml; those that have a result are skipped."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of each run."""
    hidden_size: PositiveInt = 128
    """Units; the embedding has a quarter as many."""
    characters: PositiveInt = 1_500_000
    """About how many different tokens the base reads: in a corpus of bytes, characters."""
    results: Path = RESULTS
    """The folder of the results."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a run changes of the base."""

    texts: int = 1  # how often the base's amount of different text
    passes: int = 12
    hold: float = 0.6  # fraction of the steps in which the rate is held
    weight_decay: float = 0.0
    decayed: tuple[str, ...] = ("",)  # parts of the names of the parameters that shrink
    drop_connect: float = 0.0  # fraction of the entries of W_h and W_mh, one mask a window
    dropout: float = 0.0  # at the decoder


class MaskedLayer(MlstmLayer):
    """An mLSTM whose recurrent matrices lose some entries while it is trained."""

    masks: dict[str, Tensor]

    def _normed(self, name: str) -> Tensor:
        w = super()._normed(name)
        return w * self.masks[name] if self.training and name in self.masks else w


def main() -> None:
    options = command.parse(Options, __doc__)
    corpus = open_corpus(options.corpus)
    for seed in options.seeds:
        for name in options.runs:
            path = options.results / f"{name}_units_{options.hidden_size}_seed_{seed}.json"
            if not path.is_file():
                command.prepare_output(path)
                result = train(corpus, Change(**RUNS[name]), options, seed)
                write_json(path, {"run": name, **result, "origin": describe_origin()})
                print(f"{path.stem}: {result['rows'][-1]}", flush=True)
    figure = options.results / f"passes_{options.hidden_size}.png"
    with drawing(figure):
        save_png(draw(options.results, options.hidden_size), figure)


def train(corpus: Corpus, change: Change, options: Options, seed: int) -> dict[str, Any]:
    """Train a model; return its bits after each pass, and those of the last pass's mean weights."""
    whole = corpus.splits["train"]
    reviews = int(np.searchsorted(whole.offsets, options.characters * change.texts))
    text = taken(whole, np.arange(reviews))
    data = settle_shuffle(DataConfig(lanes=LANES), text)
    lanes = lanes_of(text, data, LANES, seed, slice(None))
    steps = round(lanes.windows_per_epoch * change.passes)
    trainer = make_trainer(corpus, change, options.hidden_size, steps, seed)
    model = trainer.model
    ends = [round(steps * (done + 1) / change.passes) for done in range(change.passes)]
    averaged, rows, used = AveragedModel(model), [], process_time()
    for step in range(steps):
        draw_masks(model.layers[0], change.drop_connect, np.random.default_rng([seed, step, 1]))
        trainer.train(as_batch(lanes[step], ALONE.device))
        if step >= steps - steps // change.passes:
            averaged.update_parameters(model)
        if step + 1 in ends:
            rows.append({**trainer.close_row(), "valid_bits_per_character": score(model, corpus)})
    return {
        "change": asdict(change),
        "seed": seed,
        "recipe": {**RATE, "lanes": LANES, "window": data.window, "precision": "bf16"},
        "corpus": corpus.fingerprint,
        "characters": len(text.tokens),
        "hidden_size": options.hidden_size,
        "parameters": sum(p.numel() for p in model.parameters()),
        "rows": rows,
        "mean_of_last_pass": score(averaged.module, corpus),
        "processor_seconds": process_time() - used,
    }


def make_trainer(corpus: Corpus, change: Change, units: int, steps: int, seed: int) -> Trainer:
    """Return a trainer of a model whose weights can be masked, with the change's decay."""
    config = ModelConfig(hidden_size=units, embedding_size=units // 4, forget_gate_bias=1.0)
    vocabulary = corpus.tokenizer.vocabulary_size
    model: Any = build_model(config.for_vocabulary(vocabulary), seed, torch.bfloat16)
    model.layers[0].__class__, model.layers[0].masks = MaskedLayer, {}
    optim = OptimConfig(**RATE, hold=change.hold, weight_decay=change.weight_decay)
    train = TrainConfig(steps=steps, precision="bf16", dropout=change.dropout)
    trainer = Trainer(
        model, optim=optim, train=train, world=ALONE, lanes=LANES, steps=steps, seed=seed
    )
    decayed = {id(p) for n, p in model.named_parameters() if any(d in n for d in change.decayed)}
    for optimizer in trainer.optimizers:
        groups = [{**g, "params": [p]} for g in optimizer.param_groups for p in g["params"]]
        spared = [group for group in groups if id(group["params"][0]) not in decayed]
        for group in spared:
            group["weight_decay"] = 0.0
        optimizer.param_groups[:] = groups if spared else optimizer.param_groups
    return trainer


def draw_masks(layer: Any, fraction: float, random: np.random.Generator) -> None:
    """Draw DropConnect's masks of the next window."""
    for name in ("mh", "h") if fraction else ():
        left = random.random(getattr(layer, f"w_{name}").shape, dtype=np.float32) >= fraction
        layer.masks[name] = torch.from_numpy(left / np.float32(1 - fraction))


def score(model: Any, corpus: Corpus) -> float:
    """Return the bits per character on the valid split."""
    model.eval()
    bits, _ = evaluate_split(model, corpus.splits["valid"], lanes=LANES, world=ALONE)
    model.train()
    return bits


def results(folder: Path, units: int) -> dict[str, list[dict[str, Any]]]:
    """Return the results of each run with so many units, a seed each."""
    names = (*RUNS, *CLOSED)
    found = {n: sorted(folder.glob(f"{n}_units_{units}_seed_*.json")) for n in names}
    return {name: [read_json(path) for path in paths] for name, paths in found.items() if paths}


def bits_of(seeds: list[dict[str, Any]]) -> np.ndarray:
    """Return train and valid after the last pass, valid after the best, and of mean weights."""
    rows = [each["rows"] for each in seeds]
    valid = [[row["valid_bits_per_character"] for row in each] for each in rows]
    train = [each[-1]["train_bits_per_character"] for each in rows]
    means = [each["mean_of_last_pass"] for each in seeds]
    return np.array([train, [v[-1] for v in valid], [min(v) for v in valid], means])


def worth(found: dict[str, list[dict[str, Any]]]) -> dict[str, tuple[float, float]]:
    """Return, for each run of many passes, the texts that it equals, read once, and its R*.

    The bits of fresh text are fitted by E + B texts^-beta. Text that is read R times more counts
    1 + R* (1 - exp(-R / R*)) times (Muennighoff et al. 2023, arXiv:2305.16264).
    """
    bits = {name: float(np.median(bits_of(seeds)[1])) for name, seeds in found.items()}
    changes = {name: Change(**RUNS.get(name, {})) for name in bits}
    fresh = {
        change.texts: bits[name]
        for name, change in changes.items()
        if change == Change(texts=change.texts, passes=1)
    }
    if len(fresh) < 4:
        return {}
    law = curve_fit(
        lambda n, e, b, beta: e + b * n**-beta, [*fresh], [*fresh.values()], (1, 1, 0.5)
    )
    (e, b, beta), worths = law[0], {}
    for name in (name for name in bits if changes[name].passes > 1):
        texts, more = float(((bits[name] - e) / b) ** (-1 / beta)), changes[name].passes - 1

        def excess(after: float, texts: float = texts, more: int = more) -> float:
            return 1 + after * (1 - np.exp(-more / after)) - texts

        worths[name] = texts, brentq(excess, 1e-3, 1e4)
    return worths


def table(units: str) -> str:
    """Return the bits of each run, the median of its seeds, and how much fresh text it equals."""
    found = results(RESULTS, int(units))
    worths, base, rows = worth(found), {e["seed"]: bits_of([e])[1, 0] for e in found["base"]}, []
    for name, seeds in found.items():
        less = [
            bits_of([each])[1, 0] - base[each["seed"]] for each in seeds if each["seed"] in base
        ]
        cells = [f"{bits:.3f}" for bits in np.median(bits_of(seeds), axis=1)]
        spread = f" ({min(less):+.3f} to {max(less):+.3f}; {len(less)} seeds)" * (len(less) > 1)
        cells.append(f"{np.median(less):+.3f}{spread}")
        cells += [f"{number:.1f}" for number in worths[name]] if name in worths else ["", ""]
        rows.append([f"`{name}`", *cells])
    head = ["run", "train", "valid", "valid, best pass", "valid, mean weights"]
    head += ["valid less the base's, same seed", "equals so many fresh texts", "R*"]
    origin = {f"{name} {each['seed']}": each for name, seeds in found.items() for each in seeds}
    return f"{markdown(head, rows)}\n\n{origins(origin)}"


def draw(folder: Path, units: int) -> Figure:
    """Draw the bits of every run by the passes over its text, the main ones in colour."""
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    axes = figure.subplots()
    for name, seeds in results(folder, units).items():
        valid = np.median(
            [[r["valid_bits_per_character"] for r in e["rows"]] for e in seeds], axis=0
        )
        change = Change(**RUNS.get(name, {}))
        if change.passes > 1:
            look = {"label": name, "zorder": 3} if name in SHOWN else {"color": "0.8"}
            axes.plot(range(1, len(valid) + 1), valid, ".-", **look)
        else:
            first = change.texts == 1 or change.weight_decay
            label = "fresh text" + ", weight decay 0.05" * bool(change.weight_decay)
            color = "red" if change.weight_decay else "black"
            axes.plot([change.texts], valid, "*", color=color, label=label if first else None)
    axes.set(xlabel="passes; of fresh text, how much of it", ylabel="valid, bits per character")
    axes.set_ylim(top=2.3)
    axes.plot([], [], color="0.8", label="all others")
    axes.legend()
    return figure


if __name__ == "__main__":
    command.run(main)
