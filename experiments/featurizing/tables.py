"""Make the table of README.md."""

from experiments.tables import markdown, origins, read_result

WAYS = {
    "ours": "ours",
    "padded": "padded, in the order of the input (the published code)",
    "padded_sorted": "padded, sorted by length first",
}


def speeds() -> str:
    """Return the characters per second of every way, and our ratios to them."""
    result = read_result("featurizing", "imdb")
    rows = []
    for way, words in WAYS.items():
        speed = f"{result['characters_per_second'][way]:,.0f}"
        rows.append([words, speed, times(result["ratios"].get(way))])
    options = result["options"]
    said = (
        f"{result['texts']} reviews of IMDB's test set ({result['characters']:,} bytes), "
        f"{result['hidden_size']:,} units, batches of {options['batch_size']}, "
        f"{result['threads']} threads, {options['rounds']} rounds. "
    )
    table = markdown(["", "characters/s", "ours is"], rows)
    return f"{table}\n\n{said}{origins({'imdb.json': result})}"


def times(ratio: dict[str, float] | None) -> str:
    """Return a ratio with its lowest and highest round."""
    if ratio is None:
        return ""
    return f"{ratio['median']:.2f} times as fast ({ratio['low']:.2f} to {ratio['high']:.2f})"
