"""The layer of each cell, imported when a model has it."""

from importlib import import_module

from .layer import RecurrentLayer

LAYERS: dict[str, str] = {
    "mlstm": "mlstm.MlstmLayer",
    "lstm": "peers.LstmLayer",
    "gru": "peers.GruLayer",
    "transformer": "transformer.TransformerLayer",
}


def layer_of(cell: str) -> type[RecurrentLayer]:
    """Return the class of the layers of a cell, one of `Cell`."""
    module, name = LAYERS[cell].split(".")
    layer: type[RecurrentLayer] = getattr(import_module(f".{module}", __package__), name)
    return layer
