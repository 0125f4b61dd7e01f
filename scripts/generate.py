"""Let a model write on from a prompt; a unit may be held at a value: sentiment switches.

python scripts/generate.py --model runs/tour --prompt "I thought this"
python scripts/generate.py --model runs/tour --prompt "I thought this" --value -2 --temperature 0.7
python scripts/generate.py --model runs/tour --neuron 7 --value 2 --samples 3 --seed 1 --stop
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import command

if TYPE_CHECKING:
    from model.files.weights import LoadedModel
    from model.sampling import Clamp


@dataclass(frozen=True, kw_only=True)
class Options:
    """Let a model write on from a prompt; a unit may be held at a value: sentiment switches."""

    model: str = "default"
    """A model directory, a run directory, or the name of a shipped model."""
    prompt: str = ""
    """What the text begins with; cleaned as the model's texts were. Absent, a text from its
    start."""
    length: int = 400
    """Bytes to write, at most."""
    samples: int = 1
    """Texts to write; the first is shown while it is written."""
    temperature: float = 1.0
    """Below 1 the model plays safe, above it dares more; 0 always takes the likeliest symbol."""
    top_k: int = 0
    """Draw among so many of the likeliest symbols; 0: among all."""
    top_p: float = 1.0
    """Draw among the fewest likeliest symbols that have this probability together."""
    seed: int = 0
    """The same seed, the same text."""
    stop: bool = False
    """End where the model would begin another review."""
    neuron: int | None = None
    """The unit to hold. Absent, the unit with the largest weight in the model's classifier."""
    value: float | None = None
    """What to hold the unit's cell state at, before every symbol read or written."""
    hidden_value: float | None = None
    """What to hold the unit's hidden state at, alone or together with --value."""
    layer: int = -1
    """The layer of the unit, from 0; -1 is the last."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where the model runs."""


def main() -> None:
    options = command.parse(Options, __doc__)

    import torch

    from model.files.weights import load_model
    from model.sampling import SamplingConfig, generate, review_start
    from transfer.pages.glyphs import visible

    config = SamplingConfig(
        temperature=options.temperature,
        top_k=options.top_k,
        top_p=options.top_p,
        length=options.length,
        seed=options.seed,
    )
    loaded = load_model(options.model, compute_dtype=torch.float32, device=options.device)
    opening = loaded.profile.opening(options.prompt)
    pieces = generate(
        loaded.model,
        opening,
        config,
        samples=options.samples,
        clamp=asked_clamp(options, loaded),
        stop=review_start(loaded.profile) if options.stop else "",
        tokenizer=loaded.tokenizer,
    )
    prompt = visible(opening.decode().removeprefix(loaded.profile.prefix))
    texts = [prompt] * options.samples
    label = "[{}] " if options.samples > 1 else ""
    print(label.format(1) + prompt, end="", flush=True)
    for sample, characters in pieces:
        texts[sample] += visible(characters)
        if sample == 0:
            print(visible(characters), end="", flush=True)
    print()
    for number, text in enumerate(texts[1:], start=2):
        print(label.format(number) + text)


def asked_clamp(options: Options, loaded: "LoadedModel") -> "Clamp | None":
    """Return the clamp that the options ask for, or None."""
    from model.classifiers.fitted import own_classifier
    from model.errors import InputError
    from model.sampling import Clamp

    if options.value is None and options.hidden_value is None:
        if options.neuron is not None:
            raise InputError("--neuron needs --value or --hidden-value: what to hold the unit at")
        return None
    unit = options.neuron
    if unit is None:
        unit = own_classifier(loaded, options.layer).neuron
    return Clamp(unit=unit, layer=options.layer, cell=options.value, hidden=options.hidden_value)


if __name__ == "__main__":
    command.run(main)
