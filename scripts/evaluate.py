"""Score a model on text: bits per character (byte of text, whatever the tokenizer).

python scripts/evaluate.py --model runs/tour --data data/reviews
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import command

from configs.device_options import DeviceOptions
from mlstm_sentiment.commands import evaluate
from mlstm_sentiment.commands.command_line import call
from mlstm_sentiment.errors import InputError
from mlstm_sentiment.files.tokenizers import check_same_tokenizer

if TYPE_CHECKING:
    from mlstm_sentiment.engine.interface import TextModel
    from mlstm_sentiment.text.split import Split


@dataclass(frozen=True, kw_only=True)
class Options(DeviceOptions, evaluate.Options):
    """Score a model on text: bits per character (byte of text, whatever the tokenizer)."""

    model: evaluate.Models = ("default",)  # type: ignore[assignment]  # again: any number of them
    split: Literal["train", "valid", "test"] | None = None
    """The split to score, if --data is the folder of a prepared corpus. Default: test."""


def score(options: Options) -> None:
    """Score a file of texts, or a split of a prepared corpus."""
    from data_utils.corpus import open_corpus
    from data_utils.provenance import describe_origin

    path, name = options.data, options.split or "test"
    if not path.is_dir():
        if options.split:
            raise InputError(f"--split: {path} is no folder of a prepared corpus; leave it out")
        return evaluate.run(options, describe_origin())
    command.check_unset(options, ("text_key", "table"), "is for a file of texts, not for a corpus")
    corpus = open_corpus(path)

    def split_for(loaded: "TextModel") -> "Split":
        if corpus.text_profile != (profile := loaded.profile.name):
            raise InputError(
                f"{path}: made with text profile {corpus.text_profile!r}, but the model needs "
                f"{profile!r}; prepare the corpus again with --text-profile {profile}"
            )
        check_same_tokenizer(path, corpus.tokenizer, loaded.tokenizer, "the model's")
        if not corpus.splits[name].reviews:
            raise InputError(f"{path}: no reviews to score")
        return corpus.splits[name]

    evaluate.score(options, split_for, describe_origin())


if __name__ == "__main__":
    command.run(lambda: call(Options, score, __doc__))
