"""Make the tables of README.md."""

from experiments.tables import markdown, origins, read_result


def faults() -> str:
    """Return the seconds from each fault to the next new step, and the steps lost."""
    result = read_result("elastic", "faults")
    rows = [
        [
            row["fault"],
            f"{row['seconds']:.0f}",
            str(row.get("ranks", "all stay")),
            str(row["steps_lost"]),
            f"{row['seconds_until_ended']:.0f}" if "seconds_until_ended" in row else "",
            f"{row['load']:.1f}",
        ]
        for row in result["faults"]
    ]
    head = ["fault", "seconds", "ranks then", "steps lost", "launchers ended after", "load"]
    return f"{markdown(head, rows)}\n\n{origins({'faults.json': result})}"


def losses() -> str:
    """Return the largest differences from the losses of one process, with and without faults."""
    found = read_result("elastic", "faults")["largest_relative_difference_of_losses"]
    rows = [
        [step, f"{value:.1e}", f"{found['undisturbed'][step]:.1e}"]
        for step, value in found["disturbed"].items()
    ]
    return markdown(["largest difference of losses", "this run", "four ranks, undisturbed"], rows)
