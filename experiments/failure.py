"""Why a launched program failed, out of what it wrote."""

import re

# What a rank of ours says, or a program; a traceback's last line; torchrun's of a killed rank.
ERRORS = (
    r"(?:\[rank \d+\] |.*: )?error: (.*)",
    r"(?:\[rank\d+\]: )?((?:\w+\.)*\w*(?:Error|Exception)\b.*)",
    r"traceback : (Signal \d+ .*)",
)
# Of another rank's error: what the peers say, and how torchrun ends them.
CONSEQUENCES = ("lost a peer", "torch.distributed.elastic", "Signal 15 ")


def reason_in(text: str) -> str:
    """Return the line that says why ranks failed: of the errors, the first that is a cause.

    Without an error the last line; of nothing, nothing.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = [match[1] for line in lines for error in ERRORS if (match := re.match(error, line))]
    causes = [reason for reason in found if not reason.startswith(CONSEQUENCES)]
    return next(iter([*causes, *found, *lines[-1:]]), "")
