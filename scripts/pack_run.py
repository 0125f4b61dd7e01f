"""Pack a run into one compressed file, to resume it elsewhere, or unpack such a file.

python scripts/pack_run.py runs/tour --output tour.tar.zst
python scripts/pack_run.py tour.tar.zst --output runs/elsewhere
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import command

from model.bounds import Argument

LOST = "left out: model/ (resuming makes one), TensorBoard's events, other checkpoints"


@dataclass(frozen=True)
class Options:
    """Pack a run into one compressed file, to resume it elsewhere, or unpack such a file."""

    run: Annotated[Path, Argument(positional=True, metavar="RUN")]
    """A run directory to pack, or a file to unpack."""
    output: Path
    """The file to write, a tar archive under Zstandard (.tar.zst), or the run directory to make."""
    overwrite: bool = False
    """Replace the file if it exists."""
    checkpoint: str | None = None
    """The checkpoint to pack, by its name in checkpoint/. Default: the newest."""
    weights: Literal["fp32", "bf16"] = "fp32"
    """Precision of the weights; bf16 halves them, and training continues from the rounded ones."""
    moments: Literal["bf16", "fp32"] = "bf16"
    """Precision of the optimiser state; with both in fp32, a resume is exact."""


def main() -> None:
    options = command.parse(Options, __doc__)
    if options.run.is_file():
        unpack(options)
    else:
        pack(options)


def pack(options: Options) -> None:
    command.prepare_output(options.output)

    from training.packing import check_packed_name, pack_run

    check_packed_name(options.output, overwrite=options.overwrite)
    packed = pack_run(
        *(options.run, options.output, options.checkpoint),
        weights=options.weights,
        moments=options.moments,
    )
    sizes = f"{options.output.stat().st_size / 1e6:.1f} MB of {packed.bytes_before / 1e6:.1f}"
    print(f"{options.output}: step {packed.step:,}, {sizes}")
    for name, change in packed.rounding.items():
        print(f"rounded to bf16: {name}, a tensor by up to {change:.1e} of its norm")
    if not packed.rounding:
        print("nothing is rounded: a resume is exact")
    print(LOST)


def unpack(options: Options) -> None:
    of_packing = ("checkpoint", "weights", "moments", "overwrite")
    command.check_unset(options, of_packing, "is for packing a run")
    from training.packing import unpack_run

    unpack_run(options.run, options.output)
    print(f"{options.output}: continue with python main.py --resume {options.output}")


if __name__ == "__main__":
    command.run(main)
