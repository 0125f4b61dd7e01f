"""Study one unit: a page on what it predicts, what moves it, and how useful it is.

python scripts/neuron.py --model runs/tour --train train.csv --val val.csv --test test.csv \\
    --output runs/tour/neuron --draws 3
python scripts/neuron.py --model runs/tour --train train.csv --val val.csv --test test.csv \\
    --output runs/tour/transfer --neuron 7 --labels 10 100 --draws 2 --untrained 1
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import command

from transfer.task import LabelledTask, StudyOptions, check_seeds


@dataclass(frozen=True, kw_only=True)
class Options(StudyOptions, LabelledTask):
    """Study one unit on a labelled task; write a page, neuron.json and figures.

    The page ranks the units by accuracy, area under the ROC curve and weight. For the unit it has
    the values by label, the accuracy with few units, without the unit and with few labels, and the
    texts and words that move it most. Every choice is made on train and val.
    """

    output: Path
    """Folder for neuron.html, neuron.json, figures/ and the feature cache. The output folder of a
    transfer with the same texts already has the features."""
    positive: str | None = None
    """With more than two classes: the one to separate from all others."""


def main() -> None:
    options = command.parse(Options, __doc__)
    check_seeds(options.seed, max(options.draws, options.untrained))
    command.prepare_output(options.output / "neuron.json")

    from data_utils.labelled import against_rest
    from transfer.neuron.report import write_report
    from transfer.neuron.study import run_study

    loaded, sets = options.read()
    if options.positive is not None:
        sets = against_rest(sets, options.positive)
    results = run_study(loaded, sets, options.output, options)
    page = write_report(results, options.output)
    print_table(results)
    print(f"written to {page}")


def print_table(results: dict[str, Any]) -> None:
    """Print the accuracies on the test set that the page begins with."""
    from transfer.neuron.report import accuracies_of

    print(f"{'test accuracy':<40}{'':>8}  95 % interval")
    for name, row in accuracies_of(results):
        low, high = row["test_interval"]
        print(f"{name:<40}{row['test_accuracy']:>8.4f}  {low:.4f} to {high:.4f}")


if __name__ == "__main__":
    command.run(main)
