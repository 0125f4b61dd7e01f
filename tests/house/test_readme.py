"""Every command in the README and in docs/ runs: on small data, with options that make it short."""

import re
import shlex

import pytest

from mlstm_sentiment.commands.command_line import dispatch
from tests.house.pages import COMMANDS, PAGES, README, held_on, numbers_of, printed_on, words_of
from tests.support.checkouts import make_checkout, shortened
from tests.support.runs import done, run_code, run_ranks, run_shell

SLOW = (  # run by CI and by hand; reproduce_2018.sh has its own tests
    "scripts/quickstart.sh", "scripts/test.sh", "scripts/docs.sh", "scripts/reproduce_2018.sh",
)  # fmt: skip
ELASTIC = "scripts/elastic.sh"
SERVED = ("mlstm-sentiment serve", "curl ", "docker ")
# Clusters and their parts, a network; a server and a container, which have their own tests.
ELSEWHERE = ("sbatch", " join ", "pip install", "git clone", "download_data", "HOST", *SERVED)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return make_checkout(tmp_path_factory.mktemp("checkout"))


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_every_command_runs_in_order(checkout):
    """Each also prints what the pages show."""
    shown = {block: text for page in PAGES.values() for block, text in printed_on(page)}
    inputs = held_on(PAGES["docs/classify.md"])
    (checkout / "texts.csv").write_text(inputs["texts.csv"][0])
    (comments,) = held_on(PAGES["docs/report.md"])["comments.csv"]
    (checkout / "comments.csv").write_text(comments)
    printed, ran = {}, 0
    for command in COMMANDS:
        if any(word in command for word in (*SLOW, *ELSEWHERE)):
            continue
        said = []
        for process in run_or_launch(shortened(command), checkout):
            assert process.returncode == 0, f"{command}\n{process.stdout}{process.stderr}"
            said.append(process.stdout + process.stderr)
        ran += 1
        printed[command] = "".join(said)
        for block in [block for block in shown if block[-1] == command]:
            own = "\n".join(printed.get(each, "") for each in block)
            check_printed(shown.pop(block), own, exact=not any(map(is_changed, block)))
        if command == "mlstm-sentiment classify --input texts.csv --output labelled.csv":
            held = (checkout / "labelled.csv").read_text()
            check_printed(inputs["labelled.csv"][0], held, exact=True)
    assert ran >= 30
    assert not [block for block in shown if not any(word in block[-1] for word in ELSEWHERE)]
    the_python_examples_run(checkout)  # on the model just trained


def is_changed(command):
    """Whether a command runs on other data here than on the page, or shorter."""
    return shortened(command) != command or re.search(r"\b(runs|data|train\.csv)\b", command)


def check_printed(expected, printed, *, exact):
    """Check that the lines of a page are among those printed, in order.

    Numbers may differ: in a line with times, speeds or sizes on disk in any way, in others by what
    the last digit shown may hide; unless `exact` also otherwise.
    """
    lines = iter(printed.splitlines())
    for line in filter(str.strip, expected.splitlines()):
        match = next((each for each in lines if words_of(each) == words_of(line)), None)
        assert match is not None, f"not printed: {line!r}\n{printed}"
        if exact:
            assert numbers_of(match) == pytest.approx(numbers_of(line), rel=5e-3, abs=5e-3), line


@pytest.mark.slow
def test_the_elastic_script_launches_ranks(tmp_path):
    folder = make_checkout(tmp_path)
    (command,) = (c for c in COMMANDS if ELASTIC in c and "--standalone" in c)
    prepare = "python scripts/prepare_corpus.py reviews.jsonl --output data/reviews --split 98,1,1"
    for words in (prepare, shortened(command)):
        done(run_shell(words, cwd=folder))


def run_or_launch(command, checkout):
    """Run a command; of one that launches two ranks, what each of them runs.

    test_launch.py starts torch.distributed.run, the slow test above scripts/elastic.sh.
    """
    launcher, _, rest = command.partition(" main.py ")
    if "--nproc-per-node 2" in launcher:
        return run_ranks(2, "main.py", *shlex.split(rest), cwd=checkout)
    return [run_shell(command, cwd=checkout)]


def the_python_examples_run(checkout):
    text = "\n".join(PAGES.values())
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    code = "\n".join(block for block in blocks if "of-8" not in block)  # test_recipes.py has parts
    done(run_code(code, cwd=checkout))


def test_the_example_prints_what_the_readme_says(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(code, {})
    assert capsys.readouterr().out.strip() == re.search(r"\)  # (.*)\n", code)[1]


def test_the_coloured_example_ends_as_a_complaint(capsys):
    """Its unit turns, and the classifier agrees: it is what a reader tries second."""
    (words,) = re.findall(r"^mlstm-sentiment (heatmap .*)$", README, flags=re.MULTILINE)
    dispatch([*shlex.split(words), "--no-ansi"])
    _, *lines, verdict = capsys.readouterr().out.splitlines()
    values = [float(line.split()[0]) for line in lines]
    assert max(values) > 0.5
    assert values[-1] == min(values) < -0.5
    assert verdict.startswith("classifier: negative ")
