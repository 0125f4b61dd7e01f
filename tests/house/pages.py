"""The pages of the README and docs/, and the commands on them."""

import re
from itertools import chain

from tests.support.runs import ROOT

# In the order in which a reader sees them: later pages use the runs that earlier ones make.
NAMES = """
    install the_neuron use classify report learn featurize heatmap generate demo hub
    your_reviews corpus pretrain transfer finetune neuron resume
    published_weights scale cluster elastic plan speed
"""
FIRST = ["README.md", *(f"docs/{name}.md" for name in NAMES.split())]
REST = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))
# The README and the pages of docs/ by their paths in the repository.
PAGES = {name: (ROOT / name).read_text() for name in dict.fromkeys([*FIRST, *REST])}
README = PAGES["README.md"]


def commands_of(page):
    """The lines of a page's bash blocks, continued lines joined, comments dropped."""
    for block in re.findall(r"```bash\n(.*?)```", page, flags=re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            command = " ".join(line.split("  #")[0].split())
            if command and not command.startswith("#"):
                yield command


COMMANDS = list(dict.fromkeys(chain.from_iterable(map(commands_of, PAGES.values()))))


def printed_on(page):
    """Yield each block of commands that a page shows with its output, and that output."""
    blocks = r"```bash\n((?:(?!```).)*)```\n((?:(?!```|\n## ).)*)```text\n((?:(?!```).)*)```"
    for block, _, printed in re.findall(blocks, page, flags=re.DOTALL):
        yield tuple(commands_of(f"```bash\n{block}```")), printed


def held_on(page):
    """Return the contents of files that a page shows, in order, by the name of the file."""
    files = {}
    for name, held in re.findall(r"`([\w.]+)` holds\n\n```text\n(.*?)```", page, flags=re.DOTALL):
        files.setdefault(name, []).append(held)
    return files


NUMBER = re.compile(r"[-+\u2212]?\d[\d,]*(?:\.\d+)?(?:e[-+]\d+)?")
TIME = re.compile(r"\d\s?(?:s|h|ms|seconds?|minutes?|left|chars/s|dollars)\b|seconds|MB|\d\d:\d\d")


def words_of(line):
    """Return a line without its numbers, signs in parentheses and runs of spaces.

    Nor does it have what another job does not print: the pooling in the name of a unit, the time
    that is left, and what holds a step up on a busy machine.
    """
    line = re.sub(r"\b(last|mean)_unit", "unit", line)
    line = re.sub(r"\s[\d:]+ left$", "", line)
    line = re.sub(r"  bottleneck: \w+ \d+%", "", line)
    return " ".join(NUMBER.sub("#", re.sub(r"\([+-]\)", "(#)", line)).split())


def numbers_of(line):
    """Return the numbers of a line; none of one with a time, a speed or a size on disk."""
    return (
        []
        if TIME.search(line)
        else [float(n.replace(",", "").replace("\u2212", "-")) for n in NUMBER.findall(line)]
    )
