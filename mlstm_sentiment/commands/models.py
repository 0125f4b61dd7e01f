"""List the models that are installed.

mlstm-sentiment models
mlstm-sentiment models --output models.json
"""

from dataclasses import dataclass

from ..files.shipped import describe_shipped, shipped_models
from .options import JsonOutput
from .program import prepare_output, print_and_write


@dataclass(frozen=True, kw_only=True)
class Options:
    """List the models that are installed."""

    output: JsonOutput = None


def run(options: Options) -> None:
    prepare_output(options.output, kind="a list of models")
    models = [describe_shipped(name) for name in shipped_models()]
    lines = []
    for model in models:
        names = ", ".join([*model["aliases"], model["name"]])
        what = f"{model['architecture']['hidden_size']:,} units, {model['megabytes']} MB"
        answers = model["classes"][:1] + ["neutral"] * model["neutral"] + model["classes"][1:]
        lines.append(f"{names:<28} {what}{': ' * bool(answers)}{', '.join(answers)}")
    print_and_write(lines, {"models": models}, options.output, "a list of models")
