"""The weights that a run begins from, where they are another model's."""

from model.errors import InputError
from model.files.weights import load_model
from model.language_model import LanguageModel, ModelConfig
from model.text.tokenizer import BYTES, Tokenizer, check_same_tokenizer


def take_weights(
    model: LanguageModel, start_from: str | None, text_profile: str, tokenizer: Tokenizer = BYTES
) -> None:
    """Put the weights of the model `start_from` into `model`, which is to read text as it does.

    text_profile, tokenizer: the corpus's. Raises InputError where the model has others.
    """
    if start_from is None:
        return
    loaded = load_model(start_from)
    check_same_tokenizer("the corpus", tokenizer, loaded.tokenizer, f"that of {start_from}")
    _check_same_architecture(model.config, loaded.model.config, start_from)
    if loaded.profile.name != text_profile:
        raise InputError(
            f"train.start_from {start_from}: reads text as {loaded.profile.name!r}, the corpus "
            f"holds it as {text_profile!r}; prepare it with --text-profile {loaded.profile.name}"
        )
    model.load_state_dict(loaded.model.state_dict())


def _check_same_architecture(wanted: ModelConfig, given: ModelConfig, start_from: str) -> None:
    mine, theirs = wanted.architecture(), given.architecture()
    # The forget gate's bias was added before that model was trained; any goes with its weights.
    different = [key for key in mine if mine[key] != theirs.get(key) and key != "forget_gate_bias"]
    if different:
        settings = ", ".join(f"model.{key} {theirs[key]}" for key in different)
        raise InputError(f"train.start_from {start_from}: was made with {settings}; set the same")
