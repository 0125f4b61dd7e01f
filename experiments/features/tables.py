"""The tables of features, from results/."""

from collections.abc import Iterable

from experiments.tables import accuracy, markdown, origins, percent, read_result

SET_TITLES = {"sst": "SST", "mr": "MR, first fold", "imdb": "IMDB, a part"}


def accuracies(model: str) -> str:
    """Return a line for every choice of features and way of fitting: test, by set."""
    found = read_result("features", model)
    sets = found["sets"]
    keys = dict.fromkeys(
        (" + ".join(r["features"]), r["fit"]) for s in sets.values() for r in s["rows"]
    )
    cells = {
        (" + ".join(row["features"]), row["fit"], name): row
        for name, of_set in sets.items()
        for row in of_set["rows"]
    }
    rows = [
        [
            features,
            way,
            *(
                accuracy(cells[key]) if (key := (features, way, name)) in cells else "-"
                for name in sets
            ),
        ]
        for features, way in keys
    ]
    head = ["features", "regression", *(SET_TITLES[name] for name in sets)]
    return f"{markdown(head, rows)}\n\n{origins({f'{model}.json': found})}"


def chosen(model: str) -> str:
    """Return for each set the row that is best on val, and what it is worth on test."""
    found = read_result("features", model)["sets"]
    rows = []
    for name, of_set in found.items():
        best = max(of_set["rows"], key=lambda row: row["val_accuracy"])
        published = next(
            row for row in of_set["rows"] if (row["features"], row["fit"]) == (["cell last"], "L1")
        )
        told = [" + ".join(best["features"]), best["fit"], accuracy(best), accuracy(published)]
        rows.append([SET_TITLES[name], *told])
    head = ["set", "best on val", "regression", "its test accuracy", "published protocol"]
    return markdown(head, rows)


def without_labels(model: str) -> str:
    """Return the accuracies by the expected titles, without any label."""
    found = read_result("features", model)["sets"]
    rows = [
        [SET_TITLES[name], *(accuracy(of_set["titles"][cut]) for cut in ("at_zero", "at_median"))]
        for name, of_set in found.items()
    ]
    return markdown(["set", "cut at zero", "cut at the median of val"], rows)


def axes(model: str) -> str:
    """Return the best unit beside the best axes of rotated spaces and principal components."""
    found = read_result("features", model)["sets"]
    rows = []
    for name, of_set in found.items():
        told = of_set["axes"]
        turned = spread([draw["test_accuracy"] for draw in told["best_of_turned"]])
        best, principal = (accuracy(told[axis]) for axis in ("best_unit", "best_principal"))
        rows.append([SET_TITLES[name], best, turned, principal])
    head = ["set", "best unit", "best axis after a random turn", "best of 20 principal components"]
    return markdown(head, rows)


def spread(values: Iterable[float]) -> str:
    """Return the mean of draws in per cent, with their range."""
    values = list(values)
    return (
        f"{percent(sum(values) / len(values))} ({percent(min(values))} to {percent(max(values))})"
    )
