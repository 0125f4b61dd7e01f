"""What started this process, and may start it again: torch.distributed.run, where it did."""

import os
import signal


def may_restart() -> bool:
    """Return whether a launcher starts this process anew when a rank fails or a node comes."""
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0


def end_launcher() -> None:
    """End a launcher that would restart this process: what was refused would be refused again."""
    if may_restart():
        os.kill(os.getppid(), signal.SIGTERM)
