"""Find in the output of a program why it failed."""

import re

# A message of a rank or a program; the last line of a traceback; torchrun's line on a killed rank.
ERRORS = (
    r"(?:\[rank \d+\] |.*: )?error: (.*)",
    r"(?:\[rank\d+\]: )?((?:\w+\.)*\w*(?:Error|Exception)\b.*)",
    r"traceback : (Signal \d+ .*)",
)
# Consequences of another rank's error: its peers' messages, and torchrun's when it ends them.
CONSEQUENCES = ("lost a peer", "torch.distributed.elastic", "Signal 15 ")


def reason_in(text: str) -> str:
    """Return the first error that is a cause; else the first error, else the last line.

    An empty text gives an empty reason.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = [match[1] for line in lines for error in ERRORS if (match := re.match(error, line))]
    causes = [reason for reason in found if not reason.startswith(CONSEQUENCES)]
    return next(iter([*causes, *found, *lines[-1:]]), "")
