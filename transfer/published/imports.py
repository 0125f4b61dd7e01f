"""Imports published weights, and checks that they predict plain English, or proteins.

A tensor that is read is already named and laid out as in `LanguageModel.state_dict()`, [out, in];
only the four blocks of its gates may be in another order.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from mlstm_sentiment.errors import InputError
from model.inference.features import read
from model.inference.tensors import check_finite
from model.kernels.cores import follow_quota
from model.layers.config import ModelConfig
from model.layers.language_model import LanguageModel, empty_model

from .nvidia import NvidiaWeights, read_nvidia
from .openai import read_openai
from .unirep import read_unirep

_GateOrder = Literal["ifou", "ifuo"]
_OURS: _GateOrder = "ifuo"
_THEIRS: _GateOrder = "ifou"  # of OpenAI's and UniRep's code
_GATED = {"w_x", "w_h", "g_x", "g_h", "b"}  # of a layer: what has one block of rows per gate
_PLAUSIBLE_BITS = 3.0  # a trained model is below 2; single letters by their frequency cost 4.2
_IDENTITY_TOLERANCE = 1e-3  # relative to the largest gain; the released ones agree to about 1e-5
FRAME = b"\n "  # both codes put this before a review
_DISTINCT_BITS = 0.3  # the margin by which one gate order must beat the other
_PLAUSIBLE_RESIDUE = 4.19  # bits; what amino acids cost by their frequency alone
# Human ubiquitin and cytochrome c, and the lysozyme of hen's egg.
_PROTEINS = (
    "MQIFVKTLTGKTITLEVEPSDTIENVKAKIQDKEGIPPDQQRLIFAGKQLEDGRTLSDYNIQKESTLHLVLRLRGG",
    "MGDVEKGKKIFIMKCSQCHTVEKGGKHKTGPNLHGLFGRKTGQAPGYSYTAANKNKGIIWGEDTLMEYLENPKKYIPGTKM"
    "IFVGIKKKEERADLIAYLKKATNE",
    "MRSLLILVLCFLPLAALGKVFGRCELAAAMKRHGLDNYRGYSLGNWVCAAKFESNFNTQATNRNTDGSTDYGILQINSRWW"
    "CNDGRTPGSRNLCNIPCSALLSSDITASVNCAKKIVSDGNGMNAWVAWRNRCKGTDVQAWIRGCRL",
)
# Our own words, in the style of the reviews that the published models have read. For a big model,
# passages in one batch take a quarter of the time of one long text.
PLAIN_ENGLISH = (
    "I bought this for my son and he loves it. It works very well and the price was right. We have "
    "used it every day for two months, and it still looks like new.",
    "This is a good book, but the story was a little slow in the beginning. I would have liked to "
    "know more about the people in it. Still, I could not put it down.",
    "The first one that I got did not work at all, so I had to send it back. The second one was "
    "not much better. Do not waste your time and money on this product.",
    "I have been looking for something like this for a long time. It is easy to use and it does "
    "what it says. I would recommend it to anyone who needs one at home.",
)


@dataclass(frozen=True)
class Imported:
    """A model read from published weights, with notes for the user."""

    model: LanguageModel
    provenance: Mapping[str, Any]
    remarks: tuple[str, ...]  # what was found and decided
    warnings: tuple[str, ...]  # each says what is implausible


_Finding = tuple[bool, str]  # whether it is as expected, and what to say of it


def import_openai(folder: Path, gate_order: _GateOrder | Literal["auto"] = "auto") -> Imported:
    """Import OpenAI's numbered .npy files; `auto` means i f o u, as in their code."""
    tensors, order = read_openai(folder), _THEIRS if gate_order == "auto" else gate_order
    check_finite(folder, tensors)
    model = assemble(tensors, order)
    del tensors  # the model has copies of the gated ones
    bits = _bits_on_plain_english(model)
    findings = [(True, f"gate order {order}"), _check_gains(model), _check_bits(bits)]
    return _imported("openai", folder, model, order, findings, **_measured(bits))


def import_nvidia(path: Path, gate_order: _GateOrder | Literal["auto"] = "auto") -> Imported:
    """Import a .pt file of NVIDIA's: a language model or a classifier.

    auto: 257 tokens mean the code of 2019 and so i f u o; with 256 the order that predicts plain
    English better is taken. Raises InputError if that does not decide.
    """
    weights = read_nvidia(path)
    check_finite(path, weights.tensors)
    findings = []
    if weights.tokens == 257:
        pad = (
            "257 tokens: the first, the pad, is dropped; no text contains it, the states stay as "
            "they were, and its probability goes to the bytes"
        )
        findings.append((True, pad))
    if weights.has_classifier:
        beneath = "the file's classifier is not imported, only the model beneath it"
        findings.append((True, beneath))
    if gate_order == "auto":
        order, reason = _find_order(path, weights)
        findings.append((True, f"gate order {order}: {reason}"))
    else:
        order = gate_order
        findings.append((True, f"gate order {order}, as asked"))
    model, measured = assemble(weights.tensors, order), dict[str, float]()
    if weights.has_decoder:
        bits = _bits_on_plain_english(model)
        findings.append(_check_bits(bits))
        measured = _measured(bits)
    else:
        warning = (
            "the file has no decoder: features are right, but the model predicts every byte at 8 "
            "bits, and whether the weights are plausible could not be checked"
        )
        findings.append((False, warning))
    held = {"symbols": weights.tokens, "decoder": weights.has_decoder}
    return _imported("nvidia", path, model, order, findings, **held, **measured)


def import_unirep(path: Path, gate_order: _GateOrder | Literal["auto"] = "auto") -> Imported:
    """Import UniRep's model_weights.npz; `auto` means i f o u, as in its code."""
    tensors, order = read_unirep(path), _THEIRS if gate_order == "auto" else gate_order
    check_finite(path, tensors)
    model = assemble(tensors, order)
    del tensors  # the model has copies of the gated ones
    bits = _bits(model, _PROTEINS, frame=b"\n")
    on = f"{bits:.2f} bits per amino acid on three proteins"
    finding = (True, f"plausible: {on}")
    if not bits <= _PLAUSIBLE_RESIDUE:
        finding = (
            False,
            f"implausible: {on}, where their frequency alone gives {_PLAUSIBLE_RESIDUE}: another "
            "--gate-order, or damaged weights",
        )
    measured = _measured(bits, "bits_per_amino_acid")
    findings = [(True, f"gate order {order}"), finding]
    return _imported("unirep", path, model, order, findings, **measured)


IMPORTERS: dict[str, Callable[..., Imported]] = {
    "openai": import_openai,
    "nvidia": import_nvidia,
    "unirep": import_unirep,
}


def assemble(tensors: Mapping[str, Tensor], order: _GateOrder) -> LanguageModel:
    """Build the model from a complete set of tensors, whose shapes have been checked."""
    follow_quota()
    hidden_size, input_size = tensors["layers.0.w_mx"].shape
    config = ModelConfig(
        hidden_size=hidden_size,
        embedding_size=input_size,
        layers=sum(name.endswith(".w_mh") for name in tensors),
        weight_norm="layers.0.g_mh" in tensors,
    )
    model = empty_model(config)
    ordered = dict(tensors)
    for name, tensor in tensors.items():
        if order != _OURS and name.split(".")[-1] in _GATED:
            first, second, third, fourth = tensor.chunk(4)
            ordered[name] = torch.cat([first, second, fourth, third])
    model.load_state_dict(ordered, assign=True)
    return model.eval()


def _imported(
    layout: str,
    source: Path,
    model: LanguageModel,
    order: _GateOrder,
    findings: Sequence[_Finding],
    **more: Any,
) -> Imported:
    """Return a model with its findings; more: for its provenance."""
    provenance = {
        "imported_from": layout,
        "source": source.resolve().name,
        "gate_order": order,
        "folded": not model.config.weight_norm,
        **more,
    }
    remarks = tuple(text for plausible, text in findings if plausible)
    return Imported(model, provenance, remarks, tuple(text for ok, text in findings if not ok))


def _find_order(path: Path, weights: NvidiaWeights) -> tuple[_GateOrder, str]:
    if weights.tokens == 257:
        return "ifuo", "257 tokens are the code of 2019"
    if not weights.has_decoder:
        raise InputError(
            f"{path}: files with 256 tokens have either gate order, and a file without a decoder "
            "does not show which; give --gate-order ifou or ifuo"
        )
    orders = get_args(_GateOrder)
    bits = {order: _bits_on_plain_english(assemble(weights.tensors, order)) for order in orders}
    return _order_by_bits(path, bits)


def _order_by_bits(path: Path, bits: Mapping[_GateOrder, float]) -> tuple[_GateOrder, str]:
    """Return the better order and a remark; InputError, naming the file, if neither is better."""
    better, worse = sorted(bits, key=bits.__getitem__)
    measured = ", ".join(f"{bits[order]:.2f} as {order}" for order in (better, worse))
    # Written so that NaN fails.
    if not (bits[better] <= _PLAUSIBLE_BITS and bits[worse] - bits[better] >= _DISTINCT_BITS):
        raise InputError(
            f"{path}: cannot determine the gate order: bits per character on plain English are "
            f"{measured}; to decide, one must be at most {_PLAUSIBLE_BITS:.0f} and at least "
            f"{_DISTINCT_BITS} below the other; give --gate-order ifou or ifuo"
        )
    return better, f"bits per character on plain English are {measured}"


def _check_gains(model: LanguageModel) -> _Finding:
    difference = _gains_difference(model)
    if difference <= _IDENTITY_TOLERANCE:
        return True, "plausible: the gains of wmx and wmh are equal, as in OpenAI's 11.npy, 12.npy"
    return False, (
        f"the gains of wmx and wmh (11.npy, 12.npy) differ by {difference:.2g} of the largest, "
        "where OpenAI's are equal up to rounding: not the weights that they published, or damaged"
    )


def _check_bits(bits: float) -> _Finding:
    if bits <= _PLAUSIBLE_BITS:
        return True, f"plausible: {bits:.2f} bits per character on plain English"
    return False, (
        f"implausible: {bits:.2f} bits per character on plain English, where a trained model is "
        f"below {_PLAUSIBLE_BITS:.0f}: another --gate-order, damaged weights, or a model of "
        "something other than English"
    )


def _measured(bits: float, name: str = "plain_english_bits_per_character") -> dict[str, float]:
    """Return the measurement; nothing if it is NaN, which JSON cannot represent."""
    return {name: round(bits, 4)} if math.isfinite(bits) else {}


def _bits_on_plain_english(model: LanguageModel) -> float:
    return _bits(model, PLAIN_ENGLISH, FRAME)


def _bits(model: LanguageModel, passages: Sequence[str], frame: bytes) -> float:
    """Return bits per character of passages, each from the zero state, without their frame."""
    sequences = [np.frombuffer(frame + text.encode(), dtype=np.uint8) for text in passages]
    costs = read(model, sequences, bits=True).token_bits or []
    return float(np.concatenate([cost[len(frame) :] for cost in costs]).mean())


def _gains_difference(model: LanguageModel) -> float:
    """Return how much the gains of w_mx and w_mh differ, relative to the largest.

    m is the product of the two, so both gains of a unit get the same gradient; in OpenAI's
    release, files 11 and 12, they agree to rounding.
    """
    mx, mh = (model.state_dict()[f"layers.0.g_{name}"].abs() for name in ("mx", "mh"))
    largest = torch.maximum(mx, mh).max().clamp_min(torch.finfo(torch.float32).tiny)
    return float((mx - mh).abs().max() / largest)
