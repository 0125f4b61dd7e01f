"""`python -m mlstm_sentiment`: the same as the command `mlstm-sentiment`."""

import sys

from .errors import OutOfMemory


def main() -> None:
    """Import the command and run it; Ctrl-C during the import also ends without a traceback."""
    try:
        from .commands import command_line
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except (ImportError, MemoryError) as error:
        if shortage := OutOfMemory.of(error):
            print(f"error: {shortage}", file=sys.stderr)
            sys.exit(shortage.exit_code)
        raise
    command_line.main()


if __name__ == "__main__":
    main()
