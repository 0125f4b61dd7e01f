"""Every kept result has a command, every command is one that can be given, and the page says so."""

import argparse
import shlex
import subprocess
from importlib import import_module

import pytest

import configs.options
from configs import command
from experiments import all as every
from experiments import claims, results
from experiments.results import AND, CHECKOUT, HERE, RESULTS, Result, kept_results, result_of
from model.commands.command_line import Parser
from model.errors import InputError
from model.files.storage import read_json, write_json
from tests.support.runs import ROOT

CLOSED = [result.command for result in RESULTS if result.command.startswith(CHECKOUT)]
COMMANDS = sorted(
    {line for r in RESULTS if r.command not in CLOSED for line in r.command.split(AND)}
)


def test_every_kept_result_is_named():
    """A new experiment has its entry in experiments/results.py, with the command it stands for."""
    kept = subprocess.run(
        ["git", "ls-files", "experiments/*/results/*.json"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    named = {path for result in kept_results(RESULTS) for path in result.paths}
    for path in map(ROOT.joinpath, kept):
        if path not in named:  # else it is made of others: a table, a figure's numbers
            assert "origin" not in read_json(path), f"{path} stands in no entry of RESULTS"


class GivenError(Exception):
    """What a command was given, instead of its doing it."""


@pytest.fixture
def start(run_here, set_command_line):
    """Return a function that starts a command as Python would, in this process."""

    def call(line):
        _, *words = shlex.split(line)
        if words[0] == "-m":
            set_command_line(*words[1:])
            import_module(words[1]).main()
        else:
            assert run_here(*words).returncode == 0

    return call


@pytest.fixture
def parsed(monkeypatch, start):
    """Return a function that parses a command by its own options, and stops it there."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    scripts = import_module("command")  # scripts/command.py

    def stopping(parse):
        def stopped(*arguments, **keywords):
            raise GivenError(parse(*arguments, **keywords))

        return stopped

    for owner in (command, configs.options, scripts):
        monkeypatch.setattr(owner, "parse", stopping(owner.parse))
    for parser in (argparse.ArgumentParser, Parser):
        monkeypatch.setattr(parser, "parse_args", stopping(parser.parse_args))

    def call(line):
        with pytest.raises(GivenError) as given:
            start(line)
        return given.value.args[0]

    return call


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("python ")])
def test_the_words_of_a_command_are_accepted(line, parsed):
    assert parsed(line) is not None


@pytest.mark.parametrize("line", CLOSED)
def test_the_revision_of_a_closed_study_holds_its_code(line):
    checkout, *given = line.split(AND)
    revision = checkout.removeprefix(CHECKOUT)
    if not has(revision):
        pytest.skip("a checkout without its history")
    for _, *words in map(str.split, given):
        path = f"{words[1].replace('.', '/')}.py" if words[0] == "-m" else words[0]
        assert has(f"{revision}:{path}")


def has(name):
    """Say whether git knows an object."""
    return not subprocess.run(["git", "cat-file", "-e", name], cwd=ROOT, stderr=-3).returncode


def test_words_that_a_command_does_not_know_are_not(run_here):
    run = run_here("scripts/evaluate.py", "--data", "CORPUS", "--words", 3)
    assert run.returncode == 2
    assert "unknown: --words" in run.stderr


@pytest.mark.parametrize("line", [line for line in COMMANDS if not line.startswith("python ")])
def test_a_script_of_the_shell_can_be_run(line):
    shell, script, *_ = line.split()
    assert shell == "bash"
    subprocess.run(["bash", "-n", script], cwd=ROOT, check=True)


@pytest.mark.parametrize(
    ("file", "same"),
    [
        ("scaling/results/replayed.json", "rows"),
        ("scaling/results/regressed.json", "kinds"),
        ("scaling/results/plan_dgx1v_ethernet.json", "efficiency"),
    ],
)
def test_what_takes_seconds_comes_out_as_it_was_kept(file, same, tmp_path, monkeypatch, start):
    line = result_of(file).result.command
    monkeypatch.chdir(ROOT)
    start(line.replace(f"experiments/{file}", f"{tmp_path}/again.json"))
    again, kept = (read_json(path)[same] for path in (tmp_path / "again.json", HERE / file))
    assert flat(again) == pytest.approx(flat(kept), rel=1e-6)


def flat(value):
    """The numbers in a result, in their order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for item in value for number in flat(item)]
    return [value] if isinstance(value, int | float) else []


THREE = [Result(f"a/results/{name}.json", f"make {name}") for name in ("good", "dirty", "no")]


@pytest.fixture
def kept(tmp_path):
    """A folder with files of three results: as it should be, of a changed tree, and none."""
    (tmp_path / "a/results").mkdir(parents=True)
    for name, revision in (("good", "0123"), ("dirty", "0123-dirty")):
        origin = {"git_revision": revision}
        write_json(tmp_path / f"a/results/{name}.json", {"seconds": 90, "origin": origin})
    return tmp_path


def test_what_is_there_is_told_from_what_is_missing(kept, capsys):
    every.main(["--list"], THREE, kept)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "present  a/results/good.json at 0123, 1.5 minutes"
    assert lines[1].strip() == "make good"
    assert lines[-1] == "1 absent, 1 dirty, 1 present"
    every.main(["--missing"], THREE, kept)
    out = capsys.readouterr().out
    assert "good" not in out
    assert "dirty    a/results/dirty.json at 0123-dirty" in out
    assert "absent   a/results/no.json\n         make no\n" in out


@pytest.mark.parametrize(
    ("names", "state"), [(("good", "dirty"), "dirty"), (("good", "dirty", "no"), "partial")]
)
def test_a_study_whose_run_has_no_file_is_partial(kept, names, state):
    (study,) = kept_results([Result("a/results/*.json", "make all", names)], kept)
    assert study.state == state


def test_a_file_belongs_to_the_first_result_that_it_matches(kept):
    one, others = kept_results([THREE[0], Result("a/results/*.json", "make all")], kept)
    assert [path.stem for path in one.paths] == ["good"]
    assert [path.stem for path in others.paths] == ["dirty"]


@pytest.mark.parametrize("words", [[], ["--list", "--missing"]])
def test_one_of_both_is_asked_for(words):
    with pytest.raises(InputError, match="give --list or --missing"):
        every.main(words)


def test_minutes_are_those_that_all_files_say():
    assert results.seconds_of({"seconds": 60}) == 60
    assert results.seconds_of({"seconds": {"ours": [1, 2]}}) is None
    assert results.seconds_of({"runs": [{"training_seconds": 60}, {"training_seconds": 30}]}) == 90
    assert results.seconds_of({"runs": [{"training_seconds": 60}, {}]}) is None


def test_every_claim_has_its_numbers_and_its_result():
    rows = claims.table().splitlines()[2:]
    assert len(rows) >= len(claims.CLAIMS)
    for row in rows:
        what, published, ours, _, line, _, revision = row.strip("| ").split(" | ")
        assert what
        command = line.strip("`")
        assert command in CLOSED or set(command.split(AND)) <= set(COMMANDS)
        assert (ours == "-") == (revision == "absent")
        assert published != "-" or ours != "-"
