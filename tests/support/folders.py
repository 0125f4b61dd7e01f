"""What a folder holds, but for the records of what was written there."""


def contents(folder):
    """Return the paths in a folder."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".mlstm_sentiment"))
