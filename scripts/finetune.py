"""Fine-tune a model on labelled texts, with one or several labels each.

python scripts/finetune.py --model runs/tour --train train.csv --val val.csv --test test.csv \\
    --output runs/stars --epochs 3
python scripts/finetune.py --model runs/tour --train emotions.csv --label-keys joy anger fear \\
    --output runs/emotions --hidden-layers 32 --heads-per-class 4 --epochs 2
python scripts/finetune.py --model runs/tour --train train.csv --output runs/frozen --freeze
python scripts/classify.py --model runs/stars --text "I like it."
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import command

from mlstm_sentiment.bounds import Bound, NonNegativeFloat
from mlstm_sentiment.commands.options import LabelKey, Model, Table, TextKey
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.reading.inputs import TableOptions
from model.inference.loading import Device
from transfer.finetuning.config import FinetuningConfig

if TYPE_CHECKING:
    from data_utils.labelled import LabelledSet

_PER_CLASS = ("f1", "precision", "recall", "mcc")
_METRICS = ("accuracy", "subset_accuracy", "f1_micro", "f1_macro", "mcc", "mcc_macro")
_METRICS += ("jaccard_samples", "jaccard_macro", "precision_macro", "recall_macro")


@dataclass(frozen=True, kw_only=True)
class Options(FinetuningConfig):
    """Fine-tune a model on labelled texts, with one or several labels each."""

    model: Model = "default"
    train: Path
    """Labelled texts to learn from: CSV, TSV, .xlsx, JSON lines, Parquet or Feather, also
    compressed, or a folder with pos/ and neg/."""
    val: Path | None = None
    """Labelled texts to choose the thresholds and the best epoch on. Default: --val-share of
    train."""
    test: Path | None = None
    """Labelled texts to report on. Default: report on val alone."""
    output: Path
    """Folder for model/ with the heads in it, results.json and the checkpoint; classify takes it
    as --model."""
    text_key: TextKey = ()
    table: Table = field(default_factory=TableOptions)
    label_key: LabelKey = None
    label_keys: tuple[str, ...] = ()
    """For texts with several labels: a key for each class, with values 0 and 1."""
    val_share: Annotated[float, Bound(above=0, below=1)] = 0.1
    """Without --val: the fraction of train to hold out, drawn by the seed."""
    resume: bool = False
    """Continue where the same command was interrupted, if it had begun."""
    save_minutes: NonNegativeFloat = 10.0
    """Minutes between checkpoints within an epoch; every epoch also ends with one."""
    device: Device = "auto"


def main() -> int:
    options = command.parse(Options, __doc__)

    import torch

    from model.inference.devices import choose_device
    from model.inference.weights import load_model
    from training.runs.signals import StopRequest
    from transfer.finetuning.directory import FinetuningDirectory
    from transfer.finetuning.experiment import run_finetuning

    device = choose_device(options.device)
    with FinetuningDirectory(options.output).locked(resume=options.resume):
        sets = _read_sets(options)  # the folder is checked before this, the model is read after
    stop = StopRequest()
    results = run_finetuning(
        load_model(options.model, compute_dtype=torch.float32, device=device),
        sets,
        options.output,
        FinetuningConfig.of(options),
        device=device,
        resume=options.resume,
        save_seconds=60 * options.save_minutes,
        stop=stop,
    )
    if results is None:
        command.say(f"stopped; the same command with --resume continues in {options.output}")
        return stop.exit_code
    _print_tables(results)
    command.say(f"written to {options.output}")
    return 0


def _read_sets(options: Options) -> list["LabelledSet"]:
    """Read train, val and, if given, test; without --val, a part of train becomes val."""
    from data_utils.labelled import read_label_columns, read_labelled_sets
    from transfer.finetuning.task import hold_out

    if options.label_keys and options.label_key:
        raise InputError(
            "--label-keys (columns of 0 and 1) and --label-key are both given; give only one"
        )
    paths = [path for path in (options.train, options.val, options.test) if path is not None]
    if options.label_keys:
        sets = read_label_columns(paths, options.text_key, options.label_keys, options.table)
    else:
        keys = (options.text_key, options.label_key)
        sets = read_labelled_sets(paths, *keys, blank=False, table=options.table)
    if options.val is None:
        sets[:1] = hold_out(sets[0], options.val_share, options.seed)
    else:
        command.check_unset(options, ("val_share",), "is for a command without --val")
    return sets


def _print_tables(results: dict[str, Any]) -> None:
    names = [name for name in ("val", "test") if name in results]
    heads = (f"{name} ({results[name]['examples']:,})" for name in names)
    print(f"{'metric':<18}" + "".join(f"{head:>14}" for head in heads) + "   95 % interval")
    for metric in _METRICS:
        if metric in results[names[0]]:
            cells = (f"{results[name][metric]:>14.4f}" for name in names)
            low, high = results[names[-1]].get(f"{metric}_interval", (None, None))
            interval = "" if low is None else f"   {low:.4f} to {high:.4f}"
            print(f"{metric:<18}" + "".join(cells) + interval)
    print(f"{'class':<18}" + "".join(f"{head:>11}" for head in ("positives", *_PER_CLASS)))
    for name, row in results[names[-1]]["per_class"].items():
        cells = (f"{row[key]:>11.3f}" for key in _PER_CLASS)
        command.say(f"{name:<18}{row['positives']:>11}" + "".join(cells))


if __name__ == "__main__":
    command.run(main)
