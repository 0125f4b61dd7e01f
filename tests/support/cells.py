"""Configs of every cell from one set of settings, and what holds for several cells."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from model.files.weights import load_model, save_model
from model.language_model import LAYERS, LanguageModel, ModelConfig
from model.state import State
from model.text.profiles import text_profile


def config_of(cell: str, **settings: Any) -> ModelConfig:
    """Return the cell's config, without those settings that only other cells have."""
    others = set().union(*(layer.described_by for layer in LAYERS.values()))
    others -= LAYERS[cell].described_by
    own = {name: value for name, value in settings.items() if name not in others}
    return ModelConfig(cell=cell, **own)


def random_tokens(*shape: int) -> Tensor:
    """Return random bytes, the same for the same shape."""
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(2))


Read = tuple[Tensor, State]  # logits [B, T, V], and the state after them


def whole_and_cut(model: LanguageModel, tokens: Tensor, cuts: list[int]) -> tuple[Read, Read]:
    """Read tokens [B, T] in one window, and in several of these lengths."""
    zero = model.initial_state(len(tokens))
    with torch.no_grad():
        whole, state, parts = model(tokens, zero), zero, []
        for part in tokens.split(cuts, dim=1):
            logits, state = model(part, state)
            parts.append(logits)
    return whole, (torch.cat(parts, dim=1), state)


def hold_cuts_and_resets(
    model: LanguageModel, tokens: Tensor, cuts: list[int], carried: str
) -> None:
    """Hold a text to what it gives whole: where it is cut, and in lanes that begin anew.

    carried: the part of the state that has to be exact.
    """
    (whole, last), (cut, state) = whole_and_cut(model, tokens, cuts)
    tolerance = 8 * torch.finfo(model.dtype).eps * float(whole.abs().max())
    torch.testing.assert_close(cut, whole, rtol=0, atol=tolerance)
    assert torch.equal(state[carried], last[carried])
    anew = torch.arange(len(tokens)) != 1
    with torch.no_grad():
        mixed, _ = model(tokens, state.reset(anew))
    torch.testing.assert_close(mixed[anew], whole[anew], rtol=0, atol=tolerance)
    assert not torch.equal(mixed[1], whole[1])


def hold_vectors_in_files(
    model: LanguageModel, name: str, folder: Path, *, quantized: bool
) -> None:
    """Hold the first layer's vectors of this name, saved and loaded, to themselves."""
    save_model(folder, model, text_profile("openai"), {}, quantized=quantized)
    loaded = load_model(folder).model
    assert loaded.config.architecture() == model.config.architecture()
    expected, found = (getattr(m.layers[0], name).detach() for m in (model, loaded))
    rounding = expected.abs().amax(dim=-1, keepdim=True) / 127 / 2 if quantized else 0
    assert ((found - expected).abs() <= rounding * (1 + 1e-6)).all()
