"""Plan a training job on a cluster: hours, GPU hours, memory, and a table by number of GPUs.

python scripts/plan.py --model 4096 --cluster configs/clusters/dgx1v_infiniband.toml --gpus 64
python scripts/plan.py --model 8192 --cluster configs/clusters/h200.toml --characters 38.3e9
python scripts/plan.py --model configs/paper_4096.toml --cluster configs/clusters/mixed_lab.toml \\
    --lanes-per-gpu 64 --output plan.json
"""

from pathlib import Path

import command

from data_utils.corpus import corpus_files
from model.commands.program import print_and_write
from model.files.storage import check_apart
from scaling.planner import PlanOptions, lines, make_plan


def main() -> None:
    options = command.parse(PlanOptions, __doc__)
    command.prepare_output(options.output)
    corpus = corpus_files(options.corpus) if options.corpus is not None else []
    check_apart([options.cluster, Path(options.model), *corpus], [options.output])
    result = make_plan(options)
    print_and_write(lines(result), result, options.output)


if __name__ == "__main__":
    command.run(main)
