"""Every script imports this first: it puts the repository on the path, offers the command line."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from configs import report_import_errors

report_import_errors()

from configs.command import *  # noqa: F403
