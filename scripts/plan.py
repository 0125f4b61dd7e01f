"""Plan a training job on a cluster: hours, GPU hours, memory, and a table by number of GPUs.

python scripts/plan.py --model 4096 --cluster configs/clusters/dgx1v_infiniband.toml --gpus 64
python scripts/plan.py --model 8192 --cluster configs/clusters/h200.toml --characters 38.3e9
python scripts/plan.py --model configs/paper_4096.toml --cluster configs/clusters/mixed_lab.toml \\
    --lanes-per-gpu 64 --output plan.json
"""

import command

from model.files.storage import write_json
from scaling.planner import PlanOptions, lines, make_plan


def main() -> None:
    options = command.parse(PlanOptions, __doc__)
    command.prepare_output(options.output)
    result = make_plan(options)
    print("\n".join(lines(result)))
    if options.output is not None:
        write_json(options.output, result)


if __name__ == "__main__":
    command.run(main)
