"""The table of a closed study: how soon recipes reach the score of the published one."""

from pathlib import Path

from experiments.tables import markdown, origins
from model.files.storage import read_json

RESULTS = Path(__file__).resolve().parent / "results"
HEAD = ["recipe", "valid, bits per character", "characters"]
HEAD += ["times fewer", "seconds", "times less"]


def shown() -> str:
    """Return the table of the race, and the revisions of its runs."""
    summary = read_json(RESULTS / "summary.json")
    rows = [
        [
            name,
            f"{row['valid_bits_per_character']:.4f}",
            f"{row['characters']:,}",
            f"{row['times_fewer_characters']:.1f}",
            f"{row['seconds']:,.0f}",
            f"{row['times_less_time']:.1f}",
        ]
        for name, row in summary.items()
        if name != "target"
    ]
    runs = {path.name: read_json(path) for path in sorted(RESULTS.glob("*_*.json"))}
    return f"{markdown(HEAD, rows)}\n\n{origins(runs)}"
