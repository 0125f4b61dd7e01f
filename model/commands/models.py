"""List the models that are installed.

mlstm-sentiment models
mlstm-sentiment models --output models.json
"""

from argparse import Namespace

from ..files.shipped import describe_shipped, shipped_models
from .command_line import Parser, add_json_output
from .program import prepare_output, print_and_write


def add_options(parser: Parser) -> None:
    """Add the options of the command."""
    add_json_output(parser)


def run(options: Namespace) -> None:
    """Print a table and, if asked, write the full descriptions."""
    prepare_output(options.output)
    models = [describe_shipped(name) for name in shipped_models()]
    lines = []
    for model in models:
        names = ", ".join([*model["aliases"], model["name"]])
        what = f"{model['architecture']['hidden_size']:,} units, {model['megabytes']} MB"
        answers = model["classes"][:1] + ["neutral"] * model["neutral"] + model["classes"][1:]
        lines.append(f"{names:<28} {what}{': ' * bool(answers)}{', '.join(answers)}")
    print_and_write(lines, {"models": models}, options.output)
