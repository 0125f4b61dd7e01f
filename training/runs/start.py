"""The initial weights of a run that starts from another model."""

from model.errors import InputError
from model.files.weights import load_model
from model.language_model import LanguageModel, ModelConfig
from model.text.tokenizer import BYTES, Tokenizer, check_same_tokenizer


def load_weights(
    model: LanguageModel, start_from: str | None, text_profile: str, tokenizer: Tokenizer = BYTES
) -> None:
    """Load the weights of the model `start_from`, if given, into `model`.

    text_profile, tokenizer: the corpus's. Raises InputError if `start_from` has others, or another
    architecture.
    """
    if start_from is None:
        return
    loaded = load_model(start_from)
    check_same_tokenizer("the corpus", tokenizer, loaded.tokenizer, f"that of {start_from}")
    _check_same_architecture(model.config, loaded.model.config, start_from)
    if loaded.profile.name != text_profile:
        raise InputError(
            f"train.start_from {start_from}: reads text as {loaded.profile.name!r}, the corpus has "
            f"{text_profile!r}; prepare it with --text-profile {loaded.profile.name}"
        )
    model.load_state_dict(loaded.model.state_dict())


def _check_same_architecture(wanted: ModelConfig, given: ModelConfig, start_from: str) -> None:
    mine, theirs = wanted.architecture(), given.architecture()
    # The bias is added only to initial weights, so trained ones fit any value.
    different = [
        f"model.{key} {value}"
        for key, value in theirs.items()
        if mine.get(key) != value and key != "forget_gate_bias"
    ]
    if different:
        settings = ", ".join(different)
        raise InputError(f"train.start_from {start_from}: was made with {settings}; set the same")
