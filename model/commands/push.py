"""Upload a model to the Hugging Face hub, or write the folder that would be uploaded.

The upload includes the model's classifier, if it has one, and its card, or one made from its files.
Then hf://owner/name names it wherever a model is asked for. An upload needs huggingface_hub and a
token (hf auth login).

mlstm-sentiment push runs/mine owner/name
mlstm-sentiment push runs/mine owner/name --output folder
"""

from argparse import Namespace
from pathlib import Path

from ..errors import InputError
from .command_line import Parser


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "model", help="a model directory, a run directory, or the name of a shipped model"
    )
    parser.add_argument("repository", help="owner/name; created if absent")
    parser.add_argument("--output", type=Path, help="a new folder to write instead of uploading")
    parser.add_argument("--private", action="store_true", help="make a new repository private")


def run(options: Namespace) -> None:
    """Upload the model, or write its folder."""
    owner, _, name = options.repository.partition("/")
    if not owner or not name or "/" in name:
        raise InputError(f"{options.repository!r}: a repository is named owner/name")
    if options.output is not None and options.output.exists():
        raise InputError(f"{options.output}: exists already; name another folder")

    if options.output is not None and options.private:
        raise InputError("--private is only for an upload; --output uploads nothing")

    from ..classifiers.push import push_to_hub, write_repository

    if options.output is None:
        print(push_to_hub(options.model, options.repository, private=options.private))
    else:
        write_repository(options.model, options.output, options.repository)
        print(f"{options.output}: as it would be uploaded to {options.repository}")
