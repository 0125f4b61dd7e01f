"""Every command of an experiment that a page shows for this revision has its module and options."""

import argparse
import importlib
import re
import runpy
import shlex

import pytest

from configs import command
from experiments import tables
from mlstm_sentiment.errors import InputError
from tests.house.pages import commands_of
from tests.support.runs import ROOT

CLOSED = re.compile(r"^Closed; repeat with ", re.MULTILINE)
BLOCK = re.compile(r"```bash\n.*?```", re.DOTALL)
OLDER = re.compile(r"```bash\n# at [0-9a-f]{7,}")  # a block whose commands need another revision
SHOWN = re.compile(r"python -m (experiments\.[\w.]+)(.*)")


def shown():
    """Yield page, module and words of each command; sections that are closed are text."""
    for path in tables.pages():
        for section in re.split(r"^(?=## )", path.read_text(), flags=re.MULTILINE):
            if CLOSED.search(section):
                if section.startswith("# "):
                    break  # the whole page is closed
                continue
            for block in BLOCK.findall(section):
                if not OLDER.match(block):
                    for line in commands_of(block):
                        if match := SHOWN.search(line):
                            yield path.relative_to(ROOT).as_posix(), match[1], match[2]


COMMANDS = list(dict.fromkeys(shown()))
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "experiments").rglob("*.py")
    if 'if __name__ == "__main__":' in path.read_text()
)


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("module", MODULES)
def test_a_faulty_option_is_one_line_and_exit_code_2(module, monkeypatch, capfd):
    def refuse(parser, words=None, namespace=None):
        raise InputError("refused")

    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", refuse)
    with pytest.raises(SystemExit) as end:
        runpy.run_module(module, run_name="__main__")
    assert (end.value.code, capfd.readouterr().err) == (2, "error: refused\n")


@pytest.mark.parametrize(("page", "module", "words"), COMMANDS)
def test_a_command_of_a_page_is_understood(page, module, words):
    loaded = importlib.import_module(module)
    if hasattr(loaded, "__path__"):  # a package: `python -m` runs its __main__
        loaded = importlib.import_module(f"{module}.__main__")
    arguments = shlex.split(words.replace("$seed", "1"))
    if hasattr(loaded, "KINDS"):
        command.parse(loaded.KINDS[arguments[0]], loaded.__doc__, arguments=arguments[1:])
    elif hasattr(loaded, "Options"):
        command.parse(loaded.Options, loaded.__doc__, arguments=arguments)
    else:
        assert not arguments


def test_all_studies_with_commands_are_seen():
    studies = {module.split(".")[1] for _, module, _ in COMMANDS}
    assert studies >= {"board", "models", "neuron", "reproduction", "scaling"}
