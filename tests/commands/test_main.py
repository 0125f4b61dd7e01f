"""main.py as a process: what it writes, how it stops and resumes, what it refuses."""

import json
import os
import re
import shutil
import signal

import pytest
from safetensors.torch import load_file

from data_utils.corpus import open_corpus
from data_utils.lanes import DataConfig, TextClock, lanes_of, settle_shuffle
from mlstm_sentiment.errors import TEMPORARY_FAILURE
from tests.support import runs
from tests.support.folders import contents
from tests.support.runs import (
    ROOT,
    SMALL_RUN,
    assert_refused,
    done,
    rows_of,
    run,
    run_code,
    start,
    start_ranks,
    terminal,
    trained,
    wait_for,
)

STEPS = 40
WINDOW = 72  # so long that the run is in its third epoch at the end


def small_run(run_dir, steps, **changes):
    return runs.small_run(run_dir, steps, **{"data.window": WINDOW, **changes})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nothing disturbs."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    process = done(run(*small_run(folder, STEPS)))
    return folder, process.stdout


def assert_same_run(folder, whole_folder, steps=STEPS):
    assert rows_of(folder) == rows_of(whole_folder)
    last = f"checkpoint/step-{steps:08d}"
    for name in ("model", "optimizer", "lanes"):
        ours, theirs = (load_file(f / last / f"{name}.safetensors") for f in (folder, whole_folder))
        assert ours.keys() == theirs.keys()
        for key, value in ours.items():
            assert value.equal(theirs[key]), (name, key)
    a, b = (json.loads((f / last / "training.json").read_text()) for f in (folder, whole_folder))
    assert a == b


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


def test_a_run_writes_what_it_promises(whole):
    folder, output = whole
    names = {path.name for path in contents(folder)}
    assert names == {"config.toml", "metrics.jsonl", "tensorboard", "checkpoint", "model"}
    model = [path.name for path in contents(folder / "model")]
    assert model == ["config.json", "model.safetensors"]
    assert list((folder / "tensorboard").glob("events.*"))
    steps = [row["step"] for row in rows_of(folder)]
    assert steps == [4, 8, 10, 12, 16, 20, 24, 28, 30, 32, 36, 40]
    evaluated = [row["step"] for row in rows_of(folder) if "valid_bits_per_character" in row]
    assert evaluated == [10, 20, 30, 40]
    assert "recurrence: compiled" in output
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    train = open_corpus(ROOT / SMALL_RUN["data.corpus"]).splits["train"]
    config = DataConfig(window=WINDOW, shuffle="even")
    lanes = lanes_of(train, config, SMALL_RUN["data.lanes"], 0, slice(None))
    assert rows[-1]["characters"] == sum(lanes[step].characters for step in range(STEPS))
    assert (
        STEPS - 1
    ) // lanes.windows == 2  # with its epochs, what stops and resumes below comes to their ends
    assert all(row["characters_per_second"] > 0 for row in rows)
    assert rows[-1]["train_bits_per_character"] < rows[0]["train_bits_per_character"]
    assert "valid" in output
    assert len(list(contents(folder / "checkpoint"))) == 2
    provenance = json.loads((folder / "model" / "config.json").read_text())["provenance"]
    assert {"step", "characters", "corpus", "git_revision", "versions", "hardware"} <= set(
        provenance
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_saves_and_a_resume_is_exact(whole, folder, number, code):
    process = start(*small_run(folder, STEPS))
    wait_for(folder / "metrics.jsonl", lambda text: text.count("\n") >= 2)
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == code, output
    (step,) = re.findall(r"stopped and saved at step (\d+);", output)
    assert (folder / f"checkpoint/step-{int(step):08d}").is_dir()
    done(run("main.py", "--resume", folder))
    assert_same_run(folder, whole[0])


# Pretrains, but scoring the valid split takes five minutes more.
SCORED_SLOWLY = """
import runpy, sys, time
from pathlib import Path
from model.inference import features
read = features.read
def read_slowly(model, sequences, **options):
    if "advance" in options:
        Path({mark!r}).touch()
        for _ in range(3000):
            time.sleep(0.1)
            options["advance"](0)
    return read(model, sequences, **options)
features.read = read_slowly
sys.path[0] = ""
sys.argv = {words!r}
runpy.run_path("main.py", run_name="__main__")
"""


@pytest.mark.parametrize("ranks", [1, 2])
def test_an_evaluation_ends_with_a_signal_and_the_resume_repeats_it(whole, folder, ranks):
    words, mark = list(map(str, small_run(folder, STEPS))), folder.with_name("scoring")
    code = SCORED_SLOWLY.format(words=words, mark=str(mark))
    processes = start_ranks(ranks, "-c", code) if ranks > 1 else [start("-c", code)]
    wait_for(mark, lambda text: True)
    processes[-1].send_signal(signal.SIGTERM)
    output = "".join(process.communicate(timeout=120)[0] for process in processes)
    codes = [process.returncode for process in processes]
    assert codes == [75] * (ranks - 1) + [0], output
    assert "stopped and saved at step 10;" in output
    assert [row["step"] for row in rows_of(folder)] == [4, 8]
    resumed = done(run("main.py", "--resume", folder)).stdout
    (row,) = (row for row in rows_of(folder) if row["step"] == 10)
    assert f"step     10  train {row['train_bits_per_character']:.4f} bits/char" in resumed
    if ranks == 1:
        assert_same_run(folder, whole[0])
    assert [row["step"] for row in rows_of(folder)] == [row["step"] for row in rows_of(whole[0])]


def test_kill_9_and_a_resume_go_on_bit_for_bit(whole, folder):
    process = start(*small_run(folder, STEPS))
    wait_for(folder / "metrics.jsonl", lambda text: text.count("\n") >= 6)
    process.kill()
    output, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL, output
    saved = sorted(path.name for path in (folder / "checkpoint").glob("step-*"))
    assert saved[-1] < f"step-{STEPS:08d}"  # there is something left to go on with
    with open(folder / "metrics.jsonl", "a") as file:
        file.write('{"step": 99, "tor')  # what a kill in the middle of a row leaves
    done(run("main.py", "--resume", folder))
    assert_same_run(folder, whole[0])


def test_several_windows_a_step_resume_where_a_checkpoint_was(tmp_path):
    """A kill leaves rows beyond the last checkpoint. The run is 0.55 epochs long."""
    whole, killed, windows = tmp_path / "whole", tmp_path / "killed", 5
    changes = {"parallel.windows_per_step": windows, "train.epochs": 0.55}
    trained(run(*runs.small_run(whole, None, **changes)))
    # A step may end one epoch and begin the next.
    split = open_corpus(ROOT / SMALL_RUN["data.corpus"]).splits["train"]
    lanes, window = SMALL_RUN["data.lanes"], SMALL_RUN["data.window"]
    data = settle_shuffle(DataConfig(window=window), split)
    steps = TextClock(lanes_of(split, data, lanes, 0, slice(None)).windows, windows).steps(0.55)
    last = rows_of(whole)[-1]
    assert (last["step"], last["characters"]) == (steps, steps * windows * lanes * window)
    shutil.copytree(whole, killed)
    shutil.rmtree(killed / f"checkpoint/step-{steps:08d}")
    assert [path.name for path in contents(killed / "checkpoint")] == ["step-00000006"]
    trained(run("main.py", "--resume", killed))
    assert_same_run(killed, whole, steps)


def test_kill_9_in_the_middle_of_a_save(whole, folder):
    """Kill at the 2nd checkpoint after its first file: only the 1st one counts."""
    killer = (
        "import os, signal, sys, training.checkpoint as c\n"
        "save = c.save_tensors\n"
        "def save_and_die(path, tensors):\n"
        "    save(path, tensors)\n"
        "    if 'step-00000012' in str(path): os.kill(os.getpid(), signal.SIGKILL)\n"
        "c.save_tensors = save_and_die\n"
        "import main\n"
        "from configs import command\n"
        f"sys.argv = {list(map(str, small_run(folder, STEPS)))!r}\n"
        "command.run(main.main)\n"
    )
    process = run_code(killer)
    assert process.returncode == -signal.SIGKILL, process.stderr
    names = sorted(path.name for path in contents(folder / "checkpoint"))
    assert names == [".step-00000012.partial", "step-00000006"]
    done(run("main.py", "--resume", folder))
    assert_same_run(folder, whole[0])


def test_a_longer_resume_is_allowed_other_changes_are_not(whole, folder):
    trained(run(*small_run(folder, 6)))
    trained(run("main.py", "--resume", folder, "--train.steps", "8", "--log.every_steps", "1"))
    assert [row["step"] for row in rows_of(folder)] == [4, 6, 7, 8]
    assert_refused(run("main.py", "--resume", folder, "--optim.lr", "1"), "cannot change optim.lr")


def test_a_copy_cools_down_and_without_its_last_checkpoint_goes_on_as_the_run(tmp_path):
    """The version-1 run is at step 10."""
    whole, cooled = tmp_path / "whole", tmp_path / "cooled"
    shutil.copytree("tests/fixtures/v1/run", whole)
    words = ["--train.steps", 12, "--optim.decay", "constant"]
    words += ["--log.every_steps", 1, "--checkpoint.keep", 9]
    trained(run("main.py", "--resume", whole, *words))
    shutil.copytree(whole, cooled)
    trained(run("main.py", "--resume", cooled, "--optim.cooldown", 0.25))
    peak, *fall = (row["learning_rate"] for row in rows_of(cooled)[-4:])
    assert fall == pytest.approx([peak, peak * 2 / 3, peak / 3])
    on = ("--optim.cooldown", None, "--train.steps", 14)
    refused = run("main.py", "--resume", cooled, *on)
    assert_refused(refused, "cannot change optim.cooldown, train.steps", "at step 12; resume")
    shutil.rmtree(cooled / "checkpoint/step-00000015")
    trained(run("main.py", "--resume", cooled, *on))
    trained(run("main.py", "--resume", whole, "--train.steps", 14))
    assert_same_run(cooled, whole, 14)


def test_the_device_and_the_precision_may_change_on_resume(tmp_path):
    """A run may go on on another machine; the error for a missing GPU says to set a device."""
    shutil.copytree("tests/fixtures/v1/run", tmp_path / "run")
    config = tmp_path / "run/config.toml"
    config.write_text(config.read_text().replace('device = "cpu"', 'device = "cuda"'))
    command = ("main.py", "--resume", tmp_path / "run", "--train.steps", 12)
    without = {"CUDA_VISIBLE_DEVICES": ""}
    assert_refused(run(*command, env=without), "train.device is cuda", "use auto or cpu")
    changes = ("--train.device", "cpu", "--train.precision", "bf16")
    assert "bfloat16" in trained(run(*command, *changes, env=without)).stdout
    assert 'device = "cpu"' in config.read_text()
    assert 'precision = "bf16"' in config.read_text()  # of the next resume
    assert rows_of(tmp_path / "run")[-1]["step"] == 12


@pytest.mark.parametrize("errors_too", [False, True])
def test_a_reader_that_leaves_ends_no_training(whole, tmp_path, errors_too):
    """`| tee log` leaves when a terminal is closed, and so does `2>&1 | tee log`."""
    folder, pipe, errors = (tmp_path / name for name in ("run", "pipe", "errors"))
    os.mkfifo(pipe)
    streams = [str(pipe), str(pipe if errors_too else errors)]
    process = start(*small_run(folder, STEPS), streams=streams)
    with open(pipe):
        pass  # it opens when the process has opened its end
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert errors_too or "stdout was closed" in errors.read_text()
    assert_same_run(folder, whole[0])


def test_a_terminal_that_is_closed_ends_no_training(whole, folder):
    """SIGHUP is ignored, as with nohup, but the output goes to the terminal."""
    with terminal() as (path, reader):
        process = start(*small_run(folder, STEPS), streams=[path, path])
        os.read(reader, 1)  # the process has opened it and written
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert_same_run(folder, whole[0])


def test_a_second_process_learns_who_holds_the_run_until_that_one_is_killed(
    whole, folder, run_here
):
    process = start(*small_run(folder, STEPS, **{"checkpoint.keep": 99}))
    # Without a checkpoint a killed run could not be resumed; this one has all it needs, and stays.
    wait_for(folder / "checkpoint" / "step-00000006" / "training.json", bool)
    process.send_signal(signal.SIGSTOP)
    try:
        for second in (["main.py", "--resume", folder], small_run(folder, STEPS)):
            said = f"in use by process {process.pid} on"
            assert_refused(run_here(*second), said, "since", code=TEMPORARY_FAILURE)
    finally:
        process.kill()
    process.communicate()
    done(run("main.py", "--resume", folder))
    assert_same_run(folder, whole[0])
    assert {path.name for path in contents(folder)} == {path.name for path in contents(whole[0])}


def test_a_training_that_diverges_leaves_nothing_that_is_not_finite(folder):
    process = run(*small_run(folder, 1, **{"optim.lr": 1e39}))
    assert_refused(process, "not finite at step 1", "optim.lr below 1e+39", "no earlier checkpoint")
    assert not (folder / "model").exists()
    assert not (folder / "checkpoint").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data.corpus": "/nowhere"}, ["/nowhere", "not a prepared corpus"]),
        ({"data.lanes": 100_000}, ["too few for 100000"]),
        ({"seed": -1}, ["seed is -1"]),
        ({"optim.lr": "inf"}, ["optim.lr is inf; it must be finite"]),
        ({"model.hidden_size": -5}, ["model.hidden_size is -5"]),
        ({"model.cell": "transformer", "model.hidden_size": 18}, ["needs a multiple of 8"]),
        ({"train.device": "cuda"}, ["no GPU"]),
        ({"data.window": 10**12}, ["data.window is 1000000000000", "at most 2^20"]),
        ({"model.hidden_size": 1_000_000}, ["not enough memory"]),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, run_here, monkeypatch, changes, words):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert_refused(run_here(*small_run(tmp_path / "run", 2, **changes)), *words)
    assert not (tmp_path / "run/model").exists()
    assert not (tmp_path / "run").exists() or "memory" in words[0]


# Closes streams as a service does that is started with `>&- 2>&-`: Python then has None for them.
# At every file of the run, their numbers must be those of /dev/null: a library may print to them.
CLOSED = """
import os, runpy, sys
sys.dont_write_bytecode = True
for number in {closed}:
    os.close(number)
    setattr(sys, ("stdin", "stdout", "stderr")[number], None)
nothing = os.stat(os.devnull).st_rdev
def look(event, arguments):
    if event == "open" and {run_dir!r} in str(arguments[0]):
        if any(os.fstat(number).st_rdev != nothing for number in {closed}):
            os._exit(9)
sys.addaudithook(look)
sys.argv = {words!r}
runpy.run_path("main.py", run_name="__main__")
"""


@pytest.mark.parametrize("closed", [(1,), (0, 1, 2)])
def test_closed_streams_end_no_training_and_get_into_no_file(folder, closed):
    """The first files that are opened would get the numbers of the streams."""

    def code_of(*words):
        names = {"closed": closed, "run_dir": str(folder), "words": list(map(str, words))}
        return run_code(CLOSED.format(**names)).returncode

    assert code_of(*small_run(folder, 2)) == 3  # two steps do not beat unigrams
    assert [row["step"] for row in rows_of(folder)][-1] == 2
    assert code_of("main.py", "--nonsense", 3) == 2
    assert code_of("main.py", "--help") == 0


@pytest.mark.parametrize("left", ["nothing", "other names", "a link to nothing"])
def test_a_run_without_the_checkpoints_it_had_is_not_begun_again(
    whole, tmp_path, run_here, left, folder
):
    shutil.copytree(whole[0], folder)
    if left == "other names":
        for number, path in enumerate((folder / "checkpoint").glob("step-*")):
            path.rename(folder / f"checkpoint/mine-{number}")
    else:
        shutil.rmtree(folder / "checkpoint")
    if left == "a link to nothing":
        (folder / "checkpoint").symlink_to(tmp_path / "unmounted")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    message = "is a link" if left.startswith("a link") else f"the run has reached step {STEPS}"
    again = [*small_run(folder, STEPS), "--if-exists", "resume"]
    for words in (["main.py", "--resume", folder], again):
        assert_refused(run_here(*words), "checkpoint: ", message)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    "length", [("--train.epochs", 0.05), ("--train.steps", 5, "--optim.cooldown", 0.4)]
)
def test_a_run_that_has_ended_is_not_begun_again_however_its_length_was_given(
    folder, run_here, length
):
    words = small_run(folder, STEPS, **{"checkpoint.every_steps": 400})
    steps = words.index("--train.steps")
    trained(run(*words[:steps], *words[steps + 2 :], *length))
    shutil.rmtree(folder / "checkpoint")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    process = run_here("main.py", "--resume", folder, "--evaluate.every_steps", 2)
    assert_refused(process, "checkpoint: holds no checkpoint, but the run has reached step")
    assert {path: path.read_bytes() for path in before} == before


def test_a_corpus_that_was_moved_is_named_with_the_option_for_its_new_place(
    whole, folder, run_here
):
    shutil.copytree(whole[0], folder)
    config = folder / "config.toml"
    saved = next(line for line in config.read_text().splitlines() if line.startswith("corpus = "))
    config.write_text(config.read_text().replace(saved, 'corpus = "/moved"'))
    process = run_here("main.py", "--resume", folder, "--train.steps", STEPS + 1)
    assert_refused(process, "/moved: the run's corpus is missing", "--data.corpus")
    corpus = SMALL_RUN["data.corpus"]
    done(run("main.py", "--resume", folder, "--data.corpus", corpus, "--train.steps", STEPS + 1))


def as_link(part, tmp_path):
    """Move a part of a run away, and leave a link."""
    part.rename(tmp_path / part.name)
    part.symlink_to(tmp_path / part.name)
    (tmp_path / "checkpoint").mkdir(exist_ok=True)
    (tmp_path / "checkpoint/.x.partial").mkdir()
    (tmp_path / "checkpoint/.x.partial/config.json").write_text("mine")


def as_folder_with_notes(part, tmp_path):
    (part / "classifier").mkdir()
    (part / "classifier/classifier.json").write_text("mine")
    (part / "notes.txt").write_text("mine")


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("model", as_link, "model: is a link, and nothing is written through links"),
        ("checkpoint", as_link, "checkpoint: is a link"),
        (f"checkpoint/step-{STEPS:08d}", as_link, f"step-{STEPS:08d}: is a link"),
        ("metrics.jsonl", as_link, "metrics.jsonl: is a link"),
        ("tensorboard", as_link, "tensorboard: is a link"),
        ("model", as_folder_with_notes, "'classifier/classifier.json', 'notes.txt'; move them"),
    ],
)
def test_what_a_run_did_not_write_is_neither_changed_nor_deleted(
    whole, tmp_path, run_here, part, change, message, folder
):
    shutil.copytree(whole[0], folder)
    change(folder / part, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert_refused(run_here("main.py", "--resume", folder, "--train.steps", STEPS + 5), message)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_notes_in_checkpoints_stay_and_the_training_goes_on(whole, folder):
    shutil.copytree(whole[0], folder)
    oldest = min(contents(folder / "checkpoint"))
    (oldest / "notes.txt").write_text("mine")
    process = done(run("main.py", "--resume", folder, "--train.steps", STEPS + 5))
    kept = f"{oldest.name}: kept, as it holds files that a run does not write: 'notes.txt'"
    assert kept in process.stderr
    assert (oldest / "notes.txt").read_text() == "mine"


def test_a_run_from_another_models_weights_killed_before_its_first_checkpoint(whole, tmp_path):
    """It begins with those weights again, not with random ones."""
    runs = [tmp_path / name for name in ("whole", "killed")]
    words = small_run(runs[0], STEPS, **{"train.start_from": whole[0]})
    done(run(*words))
    runs[1].mkdir()
    (runs[1] / "config.toml").write_text((runs[0] / "config.toml").read_text())
    done(run("main.py", "--resume", runs[1]))
    assert_same_run(runs[1], runs[0])
    first, then = (
        json.loads((folder / "model" / "config.json").read_text())["provenance"]
        for folder in (whole[0], runs[0])
    )
    origin = {key: first[key] for key in ("step", "characters", "corpus", "git_revision", "date")}
    assert then["began_from"] == {"model": whole[0].name, **origin}


def test_a_full_disk_during_a_checkpoint(folder):
    """Files may grow to 60 kB: metrics fit, the optimiser's state does not."""
    limited = (
        "import resource, sys, main\n"
        "from configs import command\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))\n"
        f"sys.argv = {list(map(str, small_run(folder, STEPS)))!r}\n"
        "command.run(main.main)\n"
    )
    process = run_code(limited)
    assert_refused(process)
    assert not list((folder / "checkpoint").glob("*"))
    steps = [row["step"] for row in rows_of(folder)]
    assert steps in ([4], [4, 8])  # on a loaded machine a step may end before the write has failed
