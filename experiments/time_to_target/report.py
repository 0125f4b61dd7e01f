"""The table of a closed study: how soon recipes reach the score of the published one."""

from experiments.tables import EXPERIMENTS, origins, read_result, table_of
from model.files.storage import read_json


def shown() -> str:
    """Return the table of the race, and the revisions of its runs."""
    summary = read_result("time_to_target", "summary")
    rows = [
        {
            "recipe": name,
            "valid, bits per character": f"{row['valid_bits_per_character']:.4f}",
            "characters": f"{row['characters']:,}",
            "times fewer": f"{row['times_fewer_characters']:.1f}",
            "seconds": f"{row['seconds']:,.0f}",
            "times less": f"{row['times_less_time']:.1f}",
        }
        for name, row in summary.items()
        if name != "target"
    ]
    folder = EXPERIMENTS / "time_to_target" / "results"
    runs = {path.name: read_json(path) for path in sorted(folder.glob("*_*.json"))}
    return f"{table_of(rows)}\n\n{origins(runs)}"
