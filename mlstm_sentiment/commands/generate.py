"""Let a model continue a prompt; a unit may be clamped to a value, to shift the sentiment.

mlstm-sentiment generate --prompt "I thought this" --temperature 0.4
mlstm-sentiment generate --prompt "I thought this" --temperature 0.4 --sentiment 2
mlstm-sentiment generate --prompt "I thought this" --temperature 0.4 --sentiment -2
mlstm-sentiment generate --neuron 7 --value 2 --samples 3 --seed 1 --stop
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from ..bounds import Argument
from ..engine.sampling import SamplingConfig, generate, review_start
from ..errors import InputError
from ..text.glyphs import visible
from .options import ClassifierFolder, ModelOptions

if TYPE_CHECKING:
    from ..engine.interface import TextModel
    from ..engine.request import Clamp


_LAST = -1  # the last layer, as PyTorch counts
_CLAMP = Argument(group="clamp")


@dataclass(frozen=True, kw_only=True)
class Options(ModelOptions):
    """Let a model continue a prompt; a unit may be clamped to a value, to shift the sentiment."""

    prompt: str = ""
    """What the text begins with, cleaned as the model's texts were. One that begins with a dash:
    --prompt=-meh. Without it, the model begins the text itself."""
    samples: int = 1
    """Number of texts to write; the first is shown while it is written."""
    stop: bool = False
    """End where the model would begin another review."""
    classifier: ClassifierFolder = None
    drawing: Annotated[SamplingConfig, Argument(is_flat=True, group="drawing")] = field(
        default_factory=SamplingConfig
    )
    neuron: Annotated[int | None, _CLAMP] = None
    """The unit to clamp. Default: the one that the model's classifier relies on most."""
    sentiment: Annotated[float | None, _CLAMP] = None
    """Value to clamp the cell state of the sentiment unit to, above 0 positive and below negative,
    whatever its sign in the model."""
    value: Annotated[float | None, _CLAMP] = None
    """Value to clamp the unit's cell state to, before every token read or written."""
    hidden_value: Annotated[float | None, _CLAMP] = None
    """Value to clamp the unit's hidden state to, alone or together with --value."""
    layer: Annotated[int, _CLAMP] = _LAST
    """The layer of the unit, from 0; -1 is the last."""


def run(options: Options) -> None:
    loaded = options.load_model()
    opening = loaded.profile.opening(options.prompt)
    pieces = generate(
        loaded,
        opening,
        options.drawing,
        samples=options.samples,
        clamp=_clamp_of(options, loaded),
        stop=review_start(loaded.profile) if options.stop else "",
    )
    _show(visible(opening.decode().removeprefix(loaded.profile.prefix)), pieces, options.samples)


def _show(prompt: str, pieces: Iterator[tuple[int, str]], samples: int) -> None:
    """Print the samples, the first one while it is written."""
    texts = [prompt] * samples
    label = "[{}] " if samples > 1 else ""
    print(label.format(1) + prompt, end="", flush=True)
    for sample, characters in pieces:
        texts[sample] += visible(characters)
        if sample == 0:
            print(visible(characters), end="", flush=True)
    print()
    for number, text in enumerate(texts[1:], start=2):
        print(label.format(number) + text)


def _clamp_of(options: Options, loaded: "TextModel") -> "Clamp | None":
    from ..engine.request import Clamp
    from ..head.head_files import own_classifier

    if options.sentiment is not None:
        if any(each is not None for each in (options.neuron, options.value, options.hidden_value)):
            raise InputError(
                "--sentiment clamps the sentiment unit; give it or --neuron and --value"
            )
        own = own_classifier(loaded, options.layer, options.classifier)
        if not own.is_binary:
            raise InputError(
                "--sentiment is for two classes that exclude each other; the classifier has "
                f"{', '.join(own.classes)}: give --neuron and --value"
            )
        return Clamp(unit=own.neuron, layer=options.layer, cell=own.polarity * options.sentiment)
    is_clamped = options.value is not None or options.hidden_value is not None
    if options.classifier is not None and (options.neuron is not None or not is_clamped):
        raise InputError(
            "--classifier says which unit to clamp; add --sentiment, or --value without --neuron"
        )
    if not is_clamped:
        if options.neuron is not None:
            raise InputError(
                "--neuron needs a value to clamp the unit to: add --value or --hidden-value"
            )
        if options.layer != _LAST:
            raise InputError("--layer is the layer of a clamped unit; add --sentiment or --value")
        return None
    unit = options.neuron
    if unit is None:
        unit = own_classifier(loaded, options.layer, options.classifier).neuron
    return Clamp(unit=unit, layer=options.layer, cell=options.value, hidden=options.hidden_value)
