"""The version of this package."""


def installed_version() -> str:
    """Return the installed version; a checkout without an installation has none."""
    from importlib import metadata  # takes longer than all else here

    try:
        return metadata.version("mlstm-sentiment")
    except metadata.PackageNotFoundError:
        return "0+checkout"
