"""The featurizer as a module of the sentence-transformers library, which names it in modules.json.

    from sentence_transformers import SentenceTransformer
    SentenceTransformer(folder, trust_remote_code=True).encode(["Five stars."])  # float32 [1, H]

That library needs certain methods but no base class, so we import nothing of it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .features import features_in_order
from .files.hub import fetch_from_hub
from .files.weights import LoadedModel, load_model, save_model


class FinalState(nn.Module):
    """Texts to the final cell state: the rows of SentimentFeaturizer without options."""

    save_in_root = True  # beside modules.json

    def __init__(self, loaded: LoadedModel):
        super().__init__()
        self.loaded = loaded
        self.model = loaded.model

    @classmethod
    def load(
        cls,
        model_name_or_path: str,
        *,
        subfolder: str = "",
        token: str | None = None,
        revision: str | None = None,
        cache_folder: str | None = None,
        local_files_only: bool = False,
        **other: Any,
    ) -> "FinalState":
        """Read a model from a folder, or from a repository of the hub. other: not needed here."""
        folder = Path(model_name_or_path)
        if not folder.is_dir():
            folder = fetch_from_hub(
                model_name_or_path,
                revision=revision,
                token=token,
                cache_folder=cache_folder,
                local_files_only=local_files_only,
            )
        folder = folder / subfolder
        return cls(load_model(folder, compute_dtype=torch.float32, device="cpu"))

    def save(self, output_path: str, *parts: Any, **other: Any) -> None:
        """Write the model; the library writes modules.json."""
        read, folder = self.loaded, Path(output_path)
        save_model(folder, self.model, read.profile, read.provenance, tokenizer=read.tokenizer)

    def get_embedding_dimension(self) -> int:
        """Return H."""
        return int(self.model.config.hidden_size)

    get_sentence_embedding_dimension = get_embedding_dimension  # its name before version 6

    def preprocess(
        self, inputs: Sequence[str], prompt: str | None = None, **other: Any
    ) -> dict[str, Tensor]:
        """Return tokens [B, T], padded with zeros, and how many each text has [B]."""
        tokens = [self.loaded.tokens((prompt or "") + text) for text in inputs]
        lengths = torch.tensor([len(one) for one in tokens])
        padded = torch.zeros(len(tokens), int(lengths.max()), dtype=torch.int64)
        for row, one in enumerate(tokens):
            padded[row, : len(one)] = torch.from_numpy(one.astype(np.int64))
        return {"input_ids": padded, "lengths": lengths}

    def tokenize(self, texts: Sequence[str], **other: Any) -> dict[str, Tensor]:
        """Return what `preprocess` does; its name before version 6."""
        return self.preprocess(texts, **other)

    def forward(self, features: dict[str, Tensor], **other: Any) -> dict[str, Tensor]:
        """Add `sentence_embedding`, float32 [B, H]."""
        tokens, lengths = features["input_ids"].cpu().numpy(), features["lengths"].tolist()
        sequences = [row[:length] for row, length in zip(tokens, lengths, strict=True)]
        found = features_in_order(self.model, sequences)
        features["sentence_embedding"] = torch.from_numpy(found).to(features["input_ids"].device)
        return features
