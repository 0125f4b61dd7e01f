"""Imports published weights, and checks that they predict plain English."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import InputError
from ..files.weights import check_finite
from ..layers.language_model import LanguageModel
from .gates import GATE_ORDERS, GateOrder, assemble
from .nvidia import NvidiaWeights, read_nvidia
from .openai import read_openai
from .plausibility import IDENTITY_TOLERANCE, PLAUSIBLE_BITS, bits_on_plain_english, gains_differ

DISTINCT_BITS = 0.3  # by how much one gate order must beat the other
WeightsLayout = Literal["openai", "nvidia"]


@dataclass(frozen=True)
class Imported:
    """A model read from published weights, and what the user should know about it."""

    model: LanguageModel
    provenance: Mapping[str, Any]
    remarks: tuple[str, ...]  # what was found and decided
    warnings: tuple[str, ...]  # each says what is implausible


def import_openai(folder: Path, gate_order: GateOrder | Literal["auto"] = "auto") -> Imported:
    """Import OpenAI's numbered .npy files; `auto` means i f o u, as in their code."""
    tensors = read_openai(folder)
    check_finite(folder, tensors)
    order: GateOrder = "ifou" if gate_order == "auto" else gate_order
    model = assemble(tensors, order)
    bits = bits_on_plain_english(model)
    verdicts = [_identity_verdict(model), _bits_verdict(bits)]
    return Imported(
        model,
        _provenance("openai", folder, model, order) | _measured(bits),
        (f"gate order {order}", *(text for plausible, text in verdicts if plausible)),
        tuple(text for plausible, text in verdicts if not plausible),
    )


def import_nvidia(path: Path, gate_order: GateOrder | Literal["auto"] = "auto") -> Imported:
    """Import a .pt file of NVIDIA's: a language model or a classifier.

    auto: 257 tokens mean the code of 2019 and so i f u o; with 256 the order that predicts plain
    English better is taken. Raises InputError if that does not decide.
    """
    weights = read_nvidia(path)
    check_finite(path, weights.tensors)
    remarks = _describe(weights)
    if gate_order == "auto":
        order, reason = _find_order(path, weights)
        remarks.append(f"gate order {order}: {reason}")
    else:
        order = gate_order
        remarks.append(f"gate order {order}, as asked")
    model = assemble(weights.tensors, order)
    provenance = _provenance("nvidia", path, model, order)
    provenance |= {"symbols": weights.tokens, "decoder": weights.has_decoder}
    if not weights.has_decoder:
        warning = (
            "the file has no decoder: features are right, but the model predicts every byte at 8 "
            "bits, and whether the weights are plausible could not be checked"
        )
        return Imported(model, provenance, tuple(remarks), (warning,))
    bits = bits_on_plain_english(model)
    plausible, text = _bits_verdict(bits)
    if plausible:
        return Imported(model, provenance | _measured(bits), (*remarks, text), ())
    return Imported(model, provenance | _measured(bits), tuple(remarks), (text,))


IMPORTERS: dict[WeightsLayout, Callable[..., Imported]] = {
    "openai": import_openai,
    "nvidia": import_nvidia,
}


def _find_order(path: Path, weights: NvidiaWeights) -> tuple[GateOrder, str]:
    if weights.tokens == 257:
        return "ifuo", "257 tokens are the code of 2019"
    if not weights.has_decoder:
        raise InputError(
            f"{path}: files with 256 tokens have either gate order, and a file without a decoder "
            "does not show which; give --gate-order ifou or ifuo"
        )
    bits = {order: bits_on_plain_english(assemble(weights.tensors, order)) for order in GATE_ORDERS}
    return order_by_bits(path, bits)


def order_by_bits(path: Path, bits: Mapping[GateOrder, float]) -> tuple[GateOrder, str]:
    """Return the better order and a remark; InputError, naming the file, if neither is better."""
    better, worse = sorted(GATE_ORDERS, key=lambda order: bits[order])
    found = ", ".join(f"{bits[order]:.2f} as {order}" for order in (better, worse))
    # Written so that NaN fails.
    if not (bits[better] <= PLAUSIBLE_BITS and bits[worse] - bits[better] >= DISTINCT_BITS):
        raise InputError(
            f"{path}: cannot determine the gate order: bits per character on plain English are "
            f"{found}; to decide, one must be at most {PLAUSIBLE_BITS:.0f} and at least "
            f"{DISTINCT_BITS} below the other; give --gate-order ifou or ifuo"
        )
    return better, f"bits per character on plain English are {found}"


def _describe(weights: NvidiaWeights) -> list[str]:
    remarks = []
    if weights.tokens == 257:
        remarks.append(
            "257 tokens: the first, the pad, is dropped; no text contains it, the states stay as "
            "they were, and its probability goes to the bytes"
        )
    if weights.has_classifier:
        remarks.append("the file's classifier is not imported, only the model beneath it")
    return remarks


def _identity_verdict(model: LanguageModel) -> tuple[bool, str]:
    apart = gains_differ(model)
    if apart <= IDENTITY_TOLERANCE:
        return True, "plausible: the gains of wmx and wmh are equal, as in OpenAI's 11.npy, 12.npy"
    return False, (
        f"the gains of wmx and wmh (11.npy, 12.npy) differ by {apart:.2g} of the largest, where "
        "OpenAI's are equal up to rounding: not the weights that they published, or damaged"
    )


def _bits_verdict(bits: float) -> tuple[bool, str]:
    if bits <= PLAUSIBLE_BITS:
        return True, f"plausible: {bits:.2f} bits per character on plain English"
    return False, (
        f"implausible: {bits:.2f} bits per character on plain English, where a trained model is "
        f"below {PLAUSIBLE_BITS:.0f}: another --gate-order, damaged weights, or a model of "
        "something other than English"
    )


def _provenance(
    layout: WeightsLayout, source: Path, model: LanguageModel, order: GateOrder
) -> dict[str, Any]:
    return {
        "imported_from": layout,
        "source": source.resolve().name,
        "gate_order": order,
        "folded": not model.config.weight_norm,
    }


def _measured(bits: float) -> dict[str, float]:
    """Return the measurements without NaN, which JSON cannot represent."""
    return {"plain_english_bits_per_character": round(bits, 4)} if math.isfinite(bits) else {}
