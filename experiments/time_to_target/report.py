"""The table of a closed study: how soon recipes reach the score of the published one."""

from experiments.tables import EXPERIMENTS, markdown, origins, read_result
from model.files.storage import read_json

HEAD = ["recipe", "valid, bits per character", "characters"]
HEAD += ["times fewer", "seconds", "times less"]


def shown() -> str:
    """Return the table of the race, and the revisions of its runs."""
    summary = read_result("time_to_target", "summary")
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
    folder = EXPERIMENTS / "time_to_target" / "results"
    runs = {path.name: read_json(path) for path in sorted(folder.glob("*_*.json"))}
    return f"{markdown(HEAD, rows)}\n\n{origins(runs)}"
