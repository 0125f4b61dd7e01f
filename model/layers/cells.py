"""The layer of each cell."""

from .layer import RecurrentLayer
from .mlstm import MlstmLayer
from .peers import GruLayer, LstmLayer
from .transformer import TransformerLayer

LAYERS: dict[str, type[RecurrentLayer]] = {  # by `Cell`
    "mlstm": MlstmLayer,
    "lstm": LstmLayer,
    "gru": GruLayer,
    "transformer": TransformerLayer,
}
