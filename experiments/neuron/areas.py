"""How far apart the AUCs of a model's best units are on the same sentences of SST.

python -m experiments.neuron.areas --model amazon_1024 --data DATA \\
    --output experiments/neuron/results/amazon_1024/areas.json

The first unit is compared with the second, and the second with the third. They are the units with
the largest AUC on train in the study of the model (neuron.json).
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from configs import command
from data_utils.provenance import describe_origin
from experiments.intervals import area_difference
from experiments.published_sets import SETS
from experiments.results import read_result
from mlstm_sentiment.commands.options import Model
from mlstm_sentiment.engine.featurizer import SentimentFeaturizer
from mlstm_sentiment.files.writer import write_json


@dataclass(frozen=True, kw_only=True)
class Options:
    """Compare the AUCs of the three best units on SST's test sentences."""

    model: Model
    data: Path
    """The folder that holds sst/{train,val,test}.csv."""
    output: Path
    """The JSON file to write."""


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output)
    ranking = read_result("neuron", f"{Path(options.model).name}/neuron")["ranking"]
    test = SETS["sst"].read(options.data).sets[2]
    features = SentimentFeaturizer.from_pretrained(options.model).transform(list(test.texts))
    best = best_units(ranking)
    oriented = [unit["polarity"] * features[:, unit["unit"]] for unit in best]
    result: dict[str, Any] = {
        "units": [unit["unit"] for unit in best],
        "texts": len(test.labels),
        "apart": [area_difference(*pair, test.labels) for pair in pairwise(oriented)],
        "origin": describe_origin(),
    }
    write_json(options.output, result, "a result")
    apart = " and ".join(f"{each['difference']:.3f}" for each in result["apart"])
    print(f"units {result['units']}: {apart} apart")


def best_units(ranking: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the three units with the largest AUC on train, the best one first."""
    return sorted(ranking["units"], key=lambda unit: int(unit["rank"]["area"]))[:3]


if __name__ == "__main__":
    command.run(main)
