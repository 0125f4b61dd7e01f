"""Study one unit: what it predicts, what moves it, and how useful it is.

python scripts/neuron.py --model runs/tour --train train.csv --val val.csv --test test.csv \\
    --output runs/tour/neuron --draws 3
python scripts/neuron.py --model runs/tour --train train.csv --val val.csv --test test.csv \\
    --output runs/tour/transfer --neuron 7 --labels 10 100 --draws 2 --untrained 1
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import command

from transfer.task import LabelledTask, StudyOptions


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions, LabelledTask):
    """Study one unit on a labelled task; print the verdict, write neuron.json and figures.

    neuron.json ranks the units by accuracy, area under the ROC curve and weight. For the unit it
    has the values by label, the accuracy with few units, without the unit and with few labels, and
    the texts and words that move it most. Every choice is made on train and val.
    """

    output: Path
    """Folder for neuron.json, figures/ and the feature cache. The output folder of a transfer with
    the same texts already has the features."""
    positive: str | None = None
    """With more than two classes: the one to separate from all others."""


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output / "neuron.json")

    from data_utils.labelled import against_rest
    from transfer.neuron.report import check_figures, write_figures
    from transfer.neuron.study import run_study

    figures = options.output / "figures"
    check_figures(figures)
    loaded, sets = options.read()
    if options.positive is not None:
        sets = against_rest(sets, options.positive)
    results = run_study(loaded, sets, options.output, options)
    write_figures(results, figures)
    _print_study(results)
    command.say(f"written to {options.output / 'neuron.json'}, figures to {figures}")


def _print_study(results: dict[str, Any]) -> None:
    from mlstm_sentiment.text.glyphs import visible
    from transfer.intervals import accuracy_table
    from transfer.neuron.report import accuracies_of, verdict

    command.say(verdict(results))
    print("", *accuracy_table(accuracies_of(results)), "", sep="\n")
    for side, rows in results["extremes"]["words"].items():
        words = ", ".join(row["word"] for row in rows[:5])
        print(f"words that {side} it most: {visible(words) or 'none'}")


if __name__ == "__main__":
    command.run(main)
