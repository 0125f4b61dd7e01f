"""The pages of the README and docs/, and the commands on them."""

import re
from itertools import chain

from tests.support.runs import ROOT

# In the order in which a reader meets them: later pages use the runs that earlier ones make.
NAMES = (
    *(
        "install",
        "use",
        "classify",
        "report",
        "featurize",
        "heatmap",
        "generate",
        "demo",
        "compare",
        "hub",
    ),
    *("your_reviews", "corpus", "pretrain", "transfer", "finetune", "neuron", "resume"),
    *("published_weights", "scale", "cluster", "elastic", "plan", "speed"),
)
FIRST = ["README.md", *(f"docs/{name}.md" for name in NAMES)]
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
