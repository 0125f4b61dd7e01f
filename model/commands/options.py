"""Options that several commands have."""

from pathlib import Path

from .command_line import Parser

PRECISIONS = ("fp32", "bf16", "fp16")


def add_model(parser: Parser, *, device: bool = True) -> None:
    """Add which model it is, and where it runs where that can be chosen."""
    parser.add_argument(
        "--model",
        default="default",
        help="a model directory, a run directory, or the name of a shipped model",
    )
    if device:
        parser.add_argument(
            "--device",
            default="auto",
            help="where it runs: cpu, cuda, cuda:1, mps; auto: the fastest of them that is there",
        )


def add_text_key(parser: Parser) -> None:
    """Add which key or column holds the text."""
    parser.add_argument(
        "--text-key",
        help="key of the text; absent, the first present of text, sentence, reviewText, review",
    )


def add_precision(parser: Parser) -> None:
    """Add the dtype of the products."""
    parser.add_argument(
        "--precision", choices=PRECISIONS, default="fp32", help="dtype of the products"
    )


def add_input(parser: Parser, *, required: bool = False, more: str = "") -> None:
    """Add a file of texts."""
    kinds = "CSV, TSV, JSON lines, Parquet or text (one a line), also compressed"
    parser.add_argument("--input", required=required, help=f"texts: {kinds}{more}")


def add_json_output(parser: Parser) -> None:
    """Add a file for the result."""
    parser.add_argument("--output", type=Path, help="JSON file for the result")
