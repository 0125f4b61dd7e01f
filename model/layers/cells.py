"""The layer of each cell, imported when a model has it."""

from .layer import RecurrentLayer


def layer_of(cell: str) -> type[RecurrentLayer]:
    """Return the class of the layers of a cell, one of `Cell`."""
    match cell:
        case "mlstm":
            from .mlstm import MlstmLayer

            return MlstmLayer
        case "lstm":
            from .peers import LstmLayer

            return LstmLayer
        case "gru":
            from .peers import GruLayer

            return GruLayer
        case "transformer":
            from .transformer import TransformerLayer

            return TransformerLayer
    raise ValueError(f"no cell {cell!r}")
