"""One folder for each claim; nothing imports them."""

import sys

from configs import report_import_errors

if sys.argv[0] == "-m":  # Python is starting one of them
    report_import_errors()
