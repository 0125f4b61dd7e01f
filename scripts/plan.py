"""Plan a training job on a cluster: hours, GPU hours, memory, and a table by number of GPUs.

python scripts/plan.py --model 4096 --cluster configs/clusters/dgx1v_infiniband.toml --gpus 64
python scripts/plan.py --model 8192 --cluster configs/clusters/h200.toml --characters 38.3e9
python scripts/plan.py --model configs/paper_4096.toml --cluster configs/clusters/mixed_lab.toml \\
    --lanes-per-gpu 64 --output plan.json
"""

from dataclasses import dataclass
from pathlib import Path

import command

from model.commands.program import print_and_write
from scaling.planner import PlanOptions, lines, make_plan


@dataclass(frozen=True, kw_only=True)
class Options(PlanOptions):
    """Estimate what a training job takes, by the performance model of experiments/scaling."""

    measured: tuple[Path, ...] = ()
    """Run directories, 5 or more: also predict the step by regression on their steps."""


def main() -> None:
    options = command.parse(Options, __doc__)
    command.prepare_output(options.output)
    result = make_plan(options)
    shown = lines(result)
    if options.measured:
        from experiments.scaling import regression  # importing scikit-learn takes a second

        result["regression"] = regression.predict_step(options, options.measured)
        shown += ["", *regression.lines(result["regression"])]
    print_and_write(shown, result, options.output)


if __name__ == "__main__":
    command.run(main)
