"""Fit the performance model to the published scaling figure, and draw the figure.

python experiments/scaling/published.py --output experiments/scaling/results/published.json
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# A script finds only the modules next to it.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from configs import command
from data_utils.provenance import describe_origin
from experiments.scaling.publication import explanation, puri
from experiments.scaling.publication.explanation import Constants
from experiments.scaling.publication.figure import draw
from experiments.scaling.publication.rivals import rivals
from experiments.scaling.tables import points_of, quality_of
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.writer import write_json


@dataclass(frozen=True, kw_only=True)
class Options:
    """Fit the performance model to the 15 points of Puri et al.'s figure."""

    output: Path | None = None
    """JSON file for the result."""
    figure: Path | None = None
    """PNG to draw; absent, it has the name of the JSON file."""


def main() -> None:
    options = command.parse(Options, __doc__)
    figure = options.figure or (options.output.with_suffix(".png") if options.output else None)
    if figure is not None and figure == options.output:
        raise InputError(f"{figure}: name different files for --output (JSON) and --figure (PNG)")
    command.prepare_output(options.output)
    command.prepare_output(figure, kind="a picture")

    fitted = explanation.fit_model()
    curves = explanation.predict(fitted.values, Constants())
    result = describe(fitted, curves)
    print(f"{points_of(result)}\n\n{quality_of(result)}")
    if figure is not None:
        alone = result["size_alone"]["infiniband_8192_over_the_fabric_of_4096"]
        draw(figure, curves, result["extrapolation"]["predicted"], alone)
    if options.output is not None:
        write_json(options.output, result, "a result")


def describe(fitted: Any, curves: dict[str, list[float]]) -> dict[str, Any]:
    """Return the whole result of a fit; `declared` are its constants, the same for all curves."""
    constants = Constants()
    return {
        "gpus": list(puri.GPUS),
        "published": puri.SCALING,
        "predicted": curves,
        "errors": explanation.errors_of(curves),
        "worst_error": fitted.worst,
        "worst_by_minimax": explanation.fit_model(minimax=True).worst,
        "rms_error": fitted.rms,
        "fitted_parameters": len(fitted.values),
        "parameters": fitted.values,
        "deviations": fitted.deviations(),
        "deviations_by_reading": fitted.deviations(explanation.reading_deviations()),
        "declared": {
            "computing_seconds_4096": constants.computing_seconds,
            "computing_8192_over_4096": constants.large_over_small,
            "link_bytes_per_second": constants.link_bytes_per_second,
            "ring": constants.ring,
            **{f"exchange_{key}": value for key, value in vars(constants.how).items()},
            "parameters": {str(size): puri.workload(size).parameters for size in (4096, 8192)},
            "tokens_per_gpu": puri.TOKENS_PER_GPU,
        },
        "extrapolation": explanation.extrapolation(),
        "sensitivity": explanation.sensitivity(),
        "rivals": rivals(),
        "size_alone": explanation.size_alone(fitted.values),
        "origin": describe_origin(),
    }


if __name__ == "__main__":
    command.run(main)
