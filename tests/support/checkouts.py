"""A checkout with a user's files in it, and commands cut down to what a test has time for."""

import json
import re

from data_utils.synthetic import synthetic_reviews
from tests.support.runs import ROOT
from tests.transfer.published.layouts import draw, openai_arrays, write_openai

SHORT_RUN = (
    " --model.hidden_size 8 --data.lanes 4 --data.window 16 --train.steps 40 --optim.lr 0.1"
    " --train.device cpu --train.precision fp32 --evaluate.lanes 8"
)
# What a first start leaves to the ranks; a test has two of them and few reviews.
SHORT_LAUNCH = SHORT_RUN.replace("--data.lanes 4", "--data.lanes_per_rank 2")
SHORT_BENCHMARK = " --hidden-size 32 --batch 4 --window 4 --rounds 1 --device cpu"


def make_checkout(folder):
    """Make a folder that looks like a checkout with the user's files in it."""
    product = "mlstm_sentiment model data_utils training transfer experiments scaling"
    for name in ("main.py", "scripts", "configs", *product.split()):
        (folder / name).symlink_to(ROOT / name)
    (folder / "docs").mkdir()
    for name in ("feedback.py", "horror.py"):
        (folder / "docs" / name).symlink_to(ROOT / "docs" / name)
    (folder / "data" / "sst").mkdir(parents=True)
    for name, count in (("train", 120), ("val", 40), ("test", 40), ("texts", 5)):
        lines = ["label,text"]
        lines += [f'{r.label},"{r.text}"' for r in synthetic_reviews(count, seed=count)]
        for parent in (folder, folder / "data" / "sst"):
            (parent / f"{name}.csv").write_text("\n".join(lines) + "\n")
    for name, count, seed in (("reviews", 200, 1), ("films", 50, 2)):
        rows = (json.dumps({"reviewText": r.text}) for r in synthetic_reviews(count, seed=seed))
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    write_openai(folder / "weights", openai_arrays(draw()))
    return folder


SHORT_STUDY = " --labels 10 --draws 1 --untrained 1"
SMALL_VOCABULARY = " --vocabulary-size 400"


def _with(options, command):
    """The command with these options instead of its own."""
    for name in re.findall(r" (--\S+)", options):
        command = re.sub(rf" {name}( (?!-)\S+)*", "", command)
    return command + options


def shortened(command):
    """The command with a small job for its last options."""
    if "-m venv" in command:
        return command.replace("-m venv", "-m venv --without-pip")  # which takes it seconds
    if "--optim.cooldown" in command:
        # The run of the pages before is at its end; a reader's goes on.
        return re.sub(r"cooldown [\d.]+", "cooldown 0.05", command) + " --train.steps 49"
    if "--resume" in command:
        return command + " --train.steps 41"
    if "torch.distributed.run" in command or "elastic.sh" in command:
        command = re.sub(r"--nproc-per-node \d+", "--nproc-per-node 2", command)
        return command + (SHORT_LAUNCH if "lanes_per_rank" in config_of(command) else SHORT_RUN)
    if " generate" in command and "--length" not in command:
        return command + " --length 60"
    if "benchmark.py" in command:
        return _with(SHORT_BENCHMARK, command)
    if "neuron.py" in command:
        return _with(SHORT_STUDY, command)
    if "finetune.py" in command:
        return re.sub(r" --epochs \d+|$", " --epochs 1", command, count=1)
    if "--tokenizer" in command and "--vocabulary-size" not in command:
        return command + SMALL_VOCABULARY
    if "--train.start-from" in command:  # of the model's own size, and already trained
        own_size = SHORT_RUN.replace(" --model.hidden_size 8", "")
        return command + own_size.replace("--train.steps 40 --optim.lr 0.1", "--train.steps 2")
    return command + SHORT_RUN if "main.py" in command else command


def config_of(command):
    match = re.search(r"--config (\S+)", command)
    return (ROOT / match[1]).read_text() if match else ""
