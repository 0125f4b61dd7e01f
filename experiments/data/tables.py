"""Make the tables of README.md."""

from experiments.tables import markdown, origins, read_result

MEGABYTE = 1e6
# The title and the target of each ratio in speed.json; the ratio should be at least the target.
TARGETS = {
    "zlib / ours, 1 process": ("decompressing alone (zlib) / ours, 1 process", 0.33),
    "zlib / ours, 2 processes": ("decompressing alone (zlib) / ours, 2 processes", 0.5),
    "isal / ours, 1 process": (
        "decompressing alone (with isal, which our code uses) / ours, 1 process",
        None,
    ),
    "isal / ours, 2 processes": (
        "decompressing alone (with isal, which our code uses) / ours, 2 processes",
        None,
    ),
    "plain, 1 / 2 processes": ("ours, plain JSON lines, 1 process / 2 processes", 1.7),
    "pandas / ours, plain, 1 process": ("pandas `read_json(lines=True)` / ours, 1 process", 3.0),
    "pandas / ours, plain, 2 processes": (
        "pandas `read_json(lines=True)` / ours, 2 processes",
        3.0,
    ),
    "2018 / ours, plain, 1 process": ("the code of 2018 / ours, 1 process", 3.0),
    "2018 / ours, plain, 2 processes": ("the code of 2018 / ours, 2 processes", 3.0),
}


def speed() -> str:
    """Return the ratios of speed beside their targets, then seconds and memory."""
    result = read_result("data", "speed")
    rows = []
    for name, (words, wanted) in TARGETS.items():
        got = f"{result['ratios'][name]:.2f}"
        missed = wanted is not None and float(got) < wanted
        rows.append([words, f"{wanted:g}" if wanted else "", f"**{got}**" if missed else got])
    seconds = [
        [name, f"{value:.1f}", f"{memory / MEGABYTE:,.0f} MB" if memory else ""]
        for name, value in result["median_seconds"].items()
        for memory in [result["peak_anonymous_bytes"].get(name)]
    ]
    head = ["seconds of the first over seconds of the second, median of three rounds"]
    ratios = markdown([*head, "target", "measured"], rows)
    spent = markdown(["", "seconds", "peak anonymous memory, all processes"], seconds)
    return f"{ratios}\n\n{spent}\n\n{origins({'speed.json': result})}"


def memory() -> str:
    """Return the memory for four times as much text, and its growth."""
    small, large = (read_result("data", name) for name in ("speed", "memory_4gb"))
    rows = []
    for name, peak in large["peak_anonymous_bytes"].items():
        grown = peak / small["peak_anonymous_bytes"][name] - 1
        said = f"{grown:+.0%}" if abs(grown) <= 0.1 else f"**{grown:+.0%}**"
        seconds = f"{large['median_seconds'][name]:.0f}"
        rows.append([name, seconds, f"{peak / MEGABYTE:.0f} MB", said])
    head = ["four times as much, one round", "seconds", "peak", "against the first"]
    return f"{markdown(head, rows)}\n\n{origins({'memory_4gb.json': large})}"


def waiting() -> str:
    """Return the part of the time that training waits for data."""
    result = read_result("data", "stream")
    rows = [
        [f"{row['lanes']:,} x {row['window']}", f"{row['waited']:.2%}"] for row in result["rows"]
    ]
    head = ["lanes x bytes", f"waiting, at {result['speed'] / 1e6:g} million characters a second"]
    return f"{markdown(head, rows)}\n\n{origins({'stream.json': result})}"
