"""Plan a training job on a cluster: hours, GPU hours, memory, and a table by number of GPUs.

python scripts/plan.py --model 4096 --cluster configs/clusters/dgx1v_infiniband.toml --gpus 64
python scripts/plan.py --model 8192 --cluster configs/clusters/h200.toml --characters 38.3e9
python scripts/plan.py --model configs/paper_4096.toml --cluster configs/clusters/mixed_lab.toml \\
    --lanes-per-gpu 64 --output plan.json
python scripts/plan.py --calibrate mine.toml     # measures this machine and describes it
python -m torch.distributed.run --nproc-per-node 8 scripts/plan.py --calibrate mine.toml
python scripts/plan.py --cluster mine.toml --actual runs/tour
"""

from dataclasses import dataclass, fields
from pathlib import Path

import command

from mlstm_sentiment.commands.program import print_and_write
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.writer import write_content
from scaling.planner import PlanOptions, compare_with_run, in_words, lines, make_plan


@dataclass(frozen=True, kw_only=True)
class Options(PlanOptions):
    """Estimate what a training job takes, by the performance model of experiments/scaling."""

    calibrate: Path | None = None
    """Measure this machine, in minutes, and write its description to this TOML file."""
    actual: Path | None = None
    """Run directory: compare the speed of its rows with the speed planned for its config."""


def main() -> None:
    options = command.parse(Options, __doc__)
    for alone, uses in (("calibrate", ()), ("actual", ("cluster", "output"))):
        if getattr(options, alone) is not None:
            others = {item.name for item in fields(Options)} - {alone, *uses}
            command.check_unset(options, others, f"has no effect with --{alone}")
    command.prepare_output(options.output, kind="a plan")
    command.prepare_output(options.calibrate, kind="a description of a cluster")
    if options.calibrate is not None:
        _calibrate(options.calibrate)
        return
    if options.actual is not None:
        if options.cluster is None:
            raise InputError("--actual needs the --cluster that the run used")
        result = compare_with_run(options.cluster, options.actual)
        line = in_words(result, options.cluster)
        print_and_write([line], result, options.output, "a plan")
        return
    result = make_plan(options)
    print_and_write(lines(result), result, options.output, "a plan")


def _calibrate(path: Path) -> None:
    from experiments.scaling.calibration import calibrate  # a plan needs none of this
    from training.parallel.distributed import launched

    with launched("auto") as world:
        measured = calibrate(world)
        if world.is_main:
            write_content(path, measured, "a description of a cluster")
            print(measured, end="")


if __name__ == "__main__":
    command.run(main)
