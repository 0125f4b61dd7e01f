"""Write the model itself into one web page: it reads as you type, and writes on.

python scripts/demo.py --output page.html
python scripts/demo.py --model runs/tour --neuron 7 --output page.html
"""

from dataclasses import dataclass
from pathlib import Path

import command


@dataclass(frozen=True, kw_only=True)
class Options:
    """Write the model itself into one web page: it reads as you type, and writes on."""

    output: Path
    """The page, one file that needs neither a network nor a server."""
    model: str = "default"
    """A model directory, a run directory, or the name of a shipped model: an mLSTM of bytes."""
    neuron: int | None = None
    """The unit that the page shows first. Absent, the one with the largest weight in the model's
    classifier; without a classifier, the one that moves most."""
    title: str = "The sentiment neuron"
    """What stands above the page."""


def main() -> None:
    options = command.parse(Options, __doc__)

    import torch

    from model.classifiers.fitted import find_classifier, load_fitted
    from model.demo import write_demo
    from model.files.weights import load_model

    command.prepare_output(options.output)
    loaded = load_model(options.model, compute_dtype=torch.float32)
    folder = find_classifier(loaded)
    mend = "fit it again with scripts/transfer.py"
    classifier = None if folder is None else load_fitted(loaded, folder, mend)
    write_demo(loaded, classifier, options.output, options.title, unit=options.neuron)
    print(f"{options.output}: {options.output.stat().st_size / 1e6:.1f} MB; open it in a browser")


if __name__ == "__main__":
    command.run(main)
