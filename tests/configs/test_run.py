"""Starting and resuming a run: which folder, which settings, and what is refused."""

import contextlib
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from configs.options import RunOptions, load_config
from configs.run import resolve_run
from data_utils.corpus import SPLITS, Corpus
from data_utils.lanes import TextClock
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.writer import write_json
from mlstm_sentiment.text.split import Split
from tests.support.damage import damaged_bytes
from tests.support.peers import among_peers
from tests.support.trainers import ALONE, CPU
from training.parallel.distributed import World
from training.runs import run_directory
from training.runs.run_directory import TRAINING_FILE

AGAIN = ("--if-exists", "resume")
RESUME = (*AGAIN, "--data.lanes", "5")  # as `folder` was begun
CORPUS = Corpus(
    {"train": Split(np.zeros(9), np.zeros(2))},
    {"splits": {name: {"sha256": ""} for name in SPLITS}},
)


def clock_of(steps):
    """A clock whose epochs have so many steps."""
    return TextClock(steps)


@pytest.fixture(autouse=True)
def small_corpus(monkeypatch):
    """Runs without a corpus read this one; the embedded one takes a second to make."""
    monkeypatch.setattr("configs.run.load_corpus", lambda folder: CORPUS)


def holding(folder, *words, world=ALONE):
    words = ["--run-dir", str(folder), *words]
    return resolve_run(RunOptions.from_command_line(words), world)


def resolved(folder, *words, world=ALONE):
    """Resolve a run and end it."""
    with holding(folder, *words, world=world) as run:
        return run


def begin(folder, *words):
    """Begin a run of a batch of 5 lanes a rank and the precision left open."""
    words = ("--data.lanes_per_rank", "5", "--train.precision", "auto", *words)
    with holding(folder, *words) as run:
        run.begin()


@pytest.fixture
def folder(tmp_path):
    begin(tmp_path / "run")
    return tmp_path / "run"


def add_checkpoint(folder, step):
    checkpoint = folder / "checkpoint" / f"step-{step:08d}"
    checkpoint.mkdir(parents=True)
    content = {"format_version": 1, "corpus": CORPUS.fingerprint, "progress": {"step": step}}
    write_json(checkpoint / TRAINING_FILE, content, "part of a folder")


def test_a_run_whose_folder_was_moved_ends_and_does_not_create_it_again(folder, tmp_path):
    with holding(folder, *RESUME) as run:
        folder.rename(tmp_path / "moved")
        for writing in (run.directory.replacing_model, lambda: run.checkpoints.writing(1, {})):
            with pytest.raises(InputError, match="run: was moved or removed during the run"):
                writing().__enter__()
    assert not folder.exists()


def test_a_folder_whose_name_is_not_utf8_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match="its name is not UTF-8"):
        resolved(tmp_path / "caf\udce9")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shares", ["even", "measured"])
def test_a_rank_for_which_no_lane_is_left_is_refused(tmp_path, shares):
    """Such a rank would be idle to the end: its speed would never be measured."""
    pair, words = World(0, 2, CPU), ("--data.lanes", "1", "--parallel.shares")
    with among_peers(0, 2):
        with pytest.raises(InputError, match=r"data\.lanes is 1, fewer than the 2 processes"):
            resolved(tmp_path / "run", *words, shares, world=pair)
        assert resolved(tmp_path / "chosen", *words, "1", "0", world=pair).lanes == 1
    assert not (tmp_path / "run").exists()


def test_a_launcher_that_restarts_means_the_same_run(folder, tmp_path, monkeypatch):
    assert resolved(folder, *RESUME).resumed
    with pytest.raises(InputError, match="exists already"):
        resolved(folder, "--if-exists", "refuse")
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    run = resolved(folder, "--data.lanes", "5")
    assert run.resumed
    assert run.may_be_restarted
    assert not resolved(tmp_path / "new").resumed
    with pytest.raises(InputError, match="exists already"):
        resolved(folder, "--if-exists", "refuse")
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "0")
    with pytest.raises(InputError, match="exists already"):
        resolved(folder)


def test_what_is_left_open_is_as_at_the_first_start_whose_config_may_start_another(
    folder, tmp_path
):
    saved = load_config(folder / "config.toml")
    open_words = (*AGAIN, "--train.precision", "auto", "--data.lanes_per_rank")
    with among_peers(0, 2):
        run = resolved(folder, *open_words, "5", world=World(0, 2, CPU))
    assert run.lanes == 5
    assert run.config == saved
    with pytest.raises(InputError, match=r"cannot change data\.lanes_per_rank;"):
        resolved(folder, *open_words, "7")
    of_old_version = (folder / "config.toml").read_text().replace("first_lanes_per_rank = 5\n", "")
    (folder / "config.toml").write_text(of_old_version)
    assert resolved(folder, *open_words, "7").lanes == 5
    words = ("--config", str(folder / "config.toml"), "--data.lanes", "5")
    assert resolved(tmp_path / "new", *words).config.data.shuffle == "even"


def test_a_command_that_is_repeated_means_the_batch_and_the_folder_of_the_first_start(
    tmp_path, monkeypatch
):
    """The repeated command names neither."""
    monkeypatch.chdir(tmp_path)
    Path("open.toml").write_text("[train]\nsteps = 5\n")
    for resumed in (False, True):
        options = RunOptions.from_command_line(["--config", "open.toml", *AGAIN])
        with resolve_run(options, ALONE) as run:
            assert run.directory.folder.as_posix() == "runs/open"
            assert (run.resumed, run.lanes) == (resumed, 64)
            run.begin()


def test_a_cooldown_that_a_command_began_goes_on_when_it_is_repeated(folder):
    """A launcher repeats its command after every interruption."""
    cooled = (*RESUME, "--optim.cooldown", "0.2")
    for step in (30, 40):
        add_checkpoint(folder, step)
        run = resolved(folder, *cooled)
        assert run.config.optim.cooldown_from == 30
        run.begin()


CHANGES = [
    *(("--train.steps", "2000"), ("--train.epochs", "2"), ("--optim.decay", "constant")),
    *(("--optim.hold", "0.5"), ("--optim.cooldown", "0.21"), ("--optim.cooldown", "None")),
]


@pytest.mark.parametrize("change", CHANGES)
def test_the_schedule_and_the_cooldown_may_change_until_its_first_step(folder, change):
    cooled = (*RESUME, "--optim.cooldown", "0.2")
    add_checkpoint(folder, 30)
    resolved(folder, *cooled).begin()
    again = RESUME if change[0] == "--optim.cooldown" else cooled
    changed = resolved(folder, *again, *change)
    cooldown = changed.config.optim.cooldown
    assert changed.config.optim.cooldown_from == (None if cooldown is None else 30)
    changed.plan(clock_of(2000))
    changed.begin()
    add_checkpoint(folder, 40)
    resolved(folder, *again, *change).plan(clock_of(2000))  # as a launcher repeats it
    if cooldown is None:
        return
    key = change[0].removeprefix("--")
    back = (*cooled[:-1], "0.19") if key == "optim.cooldown" else cooled
    with pytest.raises(InputError, match=rf"cannot change .*{key}.* at step 30; resume a copy"):
        resolved(folder, *back).plan(clock_of(2000))


LENGTHS = [("--train.steps", "100", "200"), ("--train.epochs", "10", "20")]


@pytest.mark.parametrize(("key", "length", "more"), LENGTHS)
@pytest.mark.parametrize("step", [80, 90, 100])
def test_a_run_that_began_with_its_cooldown_is_not_lengthened_within_it(
    tmp_path, key, length, more, step
):
    """Before it, the cooldown moves to the new end."""
    folder, small = tmp_path / "run", ("--model.hidden_size", "8", "--optim.cooldown", "0.2")
    begin(folder, *small, key, length)
    resume = (*RESUME, *small)
    add_checkpoint(folder, step)
    resolved(folder, *resume, key, length).plan(clock_of(10))  # as it was begun
    longer = resolved(folder, *resume, key, more)
    if step == 80:
        assert longer.plan(clock_of(10)).cooldown == range(160, 200)
        return
    with pytest.raises(InputError, match=f"cannot change {key[2:]} .* at step 80; resume a copy"):
        longer.plan(clock_of(10))


def test_a_new_length_is_refused_where_the_run_is_beyond_it(folder):
    add_checkpoint(folder, 30)
    resume = (*RESUME, "--model.hidden_size", "8")
    path = folder / "config.toml"
    text = path.read_text()
    path.write_text(re.sub("hidden_size = .*", "hidden_size = 8", text))
    for steps in (29, 30):
        run = resolved(folder, *resume, "--train.steps", str(steps))
        if steps < 30:
            with pytest.raises(InputError, match=r"asks for 29 steps, but the run has 30 already"):
                run.plan(clock_of(1))
        else:
            assert run.plan(clock_of(1)).steps == 30
    path.write_text(re.sub("(?m)^steps = .*", "steps = 29", path.read_text()))
    as_begun = resolved(folder, *resume, "--train.steps", "29")
    assert as_begun.plan(clock_of(1)).steps == 29


def test_rows_that_are_refused_leave_the_settings_as_they_are(folder):
    add_checkpoint(folder, 30)
    before = (folder / "config.toml").read_text()
    (folder / "metrics.jsonl").write_text("12\n")
    run = resolved(folder, *RESUME, "--optim.cooldown", "0.2")
    with pytest.raises(InputError, match="line 1 is not a row of metrics"):
        run.begin()
    assert (folder / "config.toml").read_text() == before


@pytest.mark.parametrize(
    ("name", "is_path"),
    [("mine", True), ("mine/of_a_run", True), ("stars_1024", False), ("hf://owner/name", False)],
)
def test_the_path_of_the_model_that_a_run_starts_from_is_saved_whole(
    tmp_path, monkeypatch, name, is_path
):
    monkeypatch.setattr("configs.run._start_of", lambda config, corpus: None)  # it is no model
    monkeypatch.chdir(tmp_path)
    for place in ("mine", "mine/of_a_run/model", "stars_1024/of something else"):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / "config.json").write_text("{}")
    folder, words = tmp_path / "run", (*RESUME, "--train.start_from", name)
    with holding(folder, *words) as run:
        run.begin()
    expected = str(tmp_path / name) if is_path else name
    assert load_config(folder / "config.toml").train.start_from == expected
    assert resolved(folder, *words).resumed  # as a launcher repeats it


@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_a_damaged_config_is_refused_or_resumed_from(folder, data):
    path = folder / "config.toml"
    whole = path.read_bytes()
    path.write_bytes(data.draw(damaged_bytes(whole)))
    with contextlib.suppress(InputError):
        options = RunOptions.from_command_line(["--resume", str(folder)])
        with resolve_run(options, ALONE) as run:
            assert run.resumed
    path.write_bytes(whole)


def test_a_resumed_run_keeps_its_way_of_shuffling(folder):
    path = folder / "config.toml"
    saved = path.read_text()
    for way in ("shards", "even"):
        path.write_text(saved.replace('shuffle = "even"', f'shuffle = "{way}"'))
        assert resolved(folder, *RESUME).config.data.shuffle == way
    path.write_text(saved.replace('shuffle = "even"\n', ""))  # before there was a choice
    with pytest.raises(InputError, match=r"has no data\.shuffle.*--train\.start_from"):
        resolved(folder, *RESUME)


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("[optim]\ncooldown = 0.5\ncooldown_from = 10", (), r"cooldown_from is 10, which"),
        (
            "[optim]\nwarmup = 0.5\ncooldown = 0.6",
            (),
            r"more than the whole run, which would never",
        ),
        ("[parallel]\nbucket_cap_mb = 1.0", ("--parallel.flat", "True"), r"in one piece"),
        ("[parallel]\nbucket_cap_mb = 1.0", ("--parallel.combine", "adasum"), r"in one piece"),
        ('[data]\nshuffle = "shards"', (), r"data\.shuffle is shards, but a new run .* even;"),
    ],
)
def test_settings_that_a_new_run_cannot_have_are_refused(tmp_path, text, words, message):
    config = tmp_path / "run.toml"
    config.write_text(text)
    with pytest.raises(InputError, match=message):
        resolved(tmp_path / "new", "--config", str(config), *words)
    assert not list((tmp_path / "new").glob("*"))


def test_another_setting_is_refused_with_all_that_may_change(folder):
    add_checkpoint(folder, 30)
    with pytest.raises(InputError, match=r"may change only .*train\.epochs") as refused:
        resolved(folder, *AGAIN, "--optim.lr", "1e-5", "--data.lanes", "6")
    assert "cannot change data.lanes, optim.lr;" in str(refused.value)


def test_a_run_may_go_on_with_another_implementation(folder):
    add_checkpoint(folder, 30)
    backend = resolved(folder, *RESUME, "--model.backend", "torch").config.model.backend
    assert backend == "torch"


def test_only_a_checkpoint_knows_its_corpus(folder):
    """Before the first one, another path may mean another text."""
    with pytest.raises(InputError, match=r"cannot change data\.corpus; it may change only check"):
        resolved(folder, *RESUME, "--data.corpus", "elsewhere")
    add_checkpoint(folder, 30)
    with pytest.raises(InputError, match="elsewhere: the run's corpus is missing"):
        resolved(folder, *RESUME, "--data.corpus", "elsewhere")


def test_an_interrupted_start_is_repeated_and_a_foreign_folder_not_touched(tmp_path):
    (tmp_path / ".config.toml.partial").write_text("[da")
    assert not resolved(tmp_path, *AGAIN).resumed
    (tmp_path / "thesis.tex").write_text("")
    said = r"exists already, but is not a run directory: it holds 'thesis\.tex'; name a new or an "
    for words in (AGAIN, ()):
        with pytest.raises(InputError, match=said):
            resolved(tmp_path, *words)
    for number in range(3):
        (tmp_path / f"plot-{number}.pdf").write_text("")
    with pytest.raises(InputError, match=r"'plot-0\.pdf', .*'plot-2\.pdf' and 1 more; name"):
        resolved(tmp_path)
    assert (tmp_path / "thesis.tex").exists()


class AmongMany(World):
    """A rank whose main rank reports that it sees the folder."""

    def broadcast_int(self, number, flag=False):
        return 1


def test_a_rank_that_does_not_see_the_run_reports_it(tmp_path, monkeypatch):
    monkeypatch.setattr(run_directory, "VISIBLE_SECONDS", 0.0)
    run = resolved(tmp_path / "run", *AGAIN)
    monkeypatch.setattr("configs.run.run_on_main", lambda world, act: str(tmp_path / "run"))
    elsewhere = AmongMany(1, 2, CPU)
    with pytest.raises(InputError, match="file system that all nodes share"):
        replace(run, world=elsewhere).begin()
    with pytest.raises(InputError, match="file system that all nodes share"):
        resolved(tmp_path / "run", *AGAIN, world=elsewhere)


def test_a_launchers_process_waits_for_the_one_before_it(folder, monkeypatch, caplog):
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    hasty = World(0, 1, CPU, timeout=timedelta(seconds=0.2))
    with (
        holding(folder, "--data.lanes", "5"),
        pytest.raises(InputError, match="wait for it to end"),
    ):
        resolved(folder, "--data.lanes", "5", world=hasty)
    assert "waiting up to 0.1 s" in caplog.text


def test_runs_of_one_name_that_start_at_one_moment_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    count = 8
    together = Barrier(count, timeout=30)  # one that fails must not leave the others waiting

    options = [RunOptions.from_command_line(["--seed", str(seed)]) for seed in range(count)]

    def begin(seed):
        together.wait()
        with resolve_run(options[seed], ALONE) as run:
            run.begin()
            together.wait()
            assert load_config(run.directory.config).seed == seed
            return run.directory.folder.name

    with ThreadPoolExecutor(count) as threads:
        names = set(threads.map(begin, range(count)))
    assert names == {"tour", *(f"tour-{number}" for number in range(2, count + 1))}
    with resolve_run(RunOptions.from_command_line([]), ALONE):  # as where its corpus is refused
        assert Path(f"runs/tour-{count + 1}").is_dir()
    assert len(list(Path("runs").iterdir())) == count


def test_the_next_start_removes_what_a_kill_left_half_written(folder):
    (folder / "checkpoint/.step-00000012.partial").mkdir(parents=True)
    (folder / "model").mkdir()
    (folder / "model/.config.json.partial").write_text("{")
    (folder / "model/config.json").write_text("{}")
    resolved(folder, *RESUME)
    left = sorted(path.name for path in folder.rglob("*") if path.is_file())
    assert left == ["config.json", "config.toml"]
    assert not list((folder / "checkpoint").iterdir())
