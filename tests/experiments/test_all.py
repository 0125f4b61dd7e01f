"""Every kept result has a command, every command is one that can be given, and the page says so."""

import argparse
import runpy
import shlex
import subprocess
import sys
from importlib import import_module

import pytest

from configs import command
from experiments import all as every
from experiments import claims, results
from experiments.results import AND, CHECKOUT, HERE, RESULTS, Result, files_of, result_of
from model.commands.command_line import Parser
from model.errors import InputError
from model.files.storage import read_json, write_json
from tests.runs import ROOT

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
    named = {path for result in RESULTS for path in files_of(result)}
    for path in map(ROOT.joinpath, kept):
        if path not in named:  # else it is made of others: a table, a figure's numbers
            assert "origin" not in read_json(path), f"{path} stands in no entry of RESULTS"


class GivenError(Exception):
    """What a command was given, instead of its doing it."""


def start(words):
    """Start a command as Python would, in this process."""
    if words[0] == "-m":
        import_module(words[1]).main()
    else:
        runpy.run_path(str(ROOT / words[0]), run_name="__main__")


@pytest.fixture
def parsed(monkeypatch):
    """Return a function that parses a command by its own options, and stops it there."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    scripts = import_module("command")  # scripts/command.py

    def stopping(parse):
        def stopped(*arguments, **keywords):
            raise GivenError(parse(*arguments, **keywords))

        return stopped

    for owner in (command, scripts):
        monkeypatch.setattr(owner, "parse", stopping(owner.parse))
        monkeypatch.setattr(owner, "run", lambda main: main())  # what it refuses is for the test
    for parser in (argparse.ArgumentParser, Parser):
        monkeypatch.setattr(parser, "parse_args", stopping(parser.parse_args))

    def call(line):
        _, *words = shlex.split(line)
        monkeypatch.setattr(sys, "argv", words[1:] if words[0] == "-m" else words)
        with pytest.raises(GivenError) as given:
            start(words)
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
    for program, *words in map(str.split, given):
        path = words[0] if program == "bash" else f"{words[1].replace('.', '/')}.py"
        assert has(f"{revision}:{path}")


def has(name):
    """Say whether git knows an object."""
    return not subprocess.run(["git", "cat-file", "-e", name], cwd=ROOT, stderr=-3).returncode


def test_words_that_a_command_does_not_know_are_not(parsed):
    with pytest.raises(InputError, match="unknown: --words"):
        parsed("python scripts/evaluate.py --data CORPUS --words 3")


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
def test_what_takes_seconds_comes_out_as_it_was_kept(file, same, tmp_path, monkeypatch):
    line = result_of(file).command.replace(f"experiments/{file}", str(tmp_path / "again.json"))
    _, *words = shlex.split(line)
    monkeypatch.syspath_prepend(ROOT / "scripts")
    monkeypatch.setattr(import_module("command"), "run", lambda main: main())
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", words[1:] if words[0] == "-m" else words)
    start(words)
    again, kept = (read_json(path)[same] for path in (tmp_path / "again.json", HERE / file))
    assert flat(again) == pytest.approx(flat(kept), rel=1e-6)


def flat(value):
    """The numbers in a result, in their order."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for item in value for number in flat(item)]
    return [value] if isinstance(value, int | float) else []


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Three results: one as it should be, one of a changed tree, one that is not there."""
    monkeypatch.setattr(results, "HERE", tmp_path)
    found = [Result(f"a/results/{name}.json", f"make {name}") for name in ("good", "dirty", "no")]
    monkeypatch.setattr(results, "RESULTS", tuple(found))
    monkeypatch.setattr(every, "RESULTS", tuple(found))
    results._owners.cache_clear()
    (tmp_path / "a/results").mkdir(parents=True)
    for name, revision in (("good", "0123"), ("dirty", "0123-dirty")):
        origin = {"git_revision": revision}
        write_json(tmp_path / f"a/results/{name}.json", {"seconds": 90, "origin": origin})
    yield
    results._owners.cache_clear()


def test_what_is_there_is_told_from_what_is_missing(kept, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["all", "--list"])
    every.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "present  a/results/good.json at 0123, 1.5 minutes"
    assert lines[1].strip() == "make good"
    assert lines[-1] == "1 absent, 1 dirty, 1 present"
    monkeypatch.setattr(sys, "argv", ["all", "--missing"])
    every.main()
    out = capsys.readouterr().out
    assert "good" not in out
    assert "dirty    a/results/dirty.json at 0123-dirty" in out
    assert "absent   a/results/no.json\n         make no\n" in out


def test_a_study_whose_run_has_no_file_is_partial(kept, monkeypatch):
    study = Result("a/results/*.json", "make all", ("good", "dirty"))
    monkeypatch.setattr(results, "RESULTS", (study,))
    results._owners.cache_clear()
    assert study.state == "dirty"
    more = Result("a/results/*.json", "make all", ("good", "dirty", "no"))
    monkeypatch.setattr(results, "RESULTS", (more,))
    results._owners.cache_clear()
    assert more.state == "partial"


@pytest.mark.parametrize("words", [[], ["--list", "--missing"]])
def test_one_of_both_is_asked_for(words, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["all", *words])
    with pytest.raises(InputError, match="give --list or --missing"):
        every.main()


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
