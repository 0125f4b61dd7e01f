"""The options of a labelled task: a model, three files of texts, their keys."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mlstm_sentiment.bounds import Bound, PositiveInt
from mlstm_sentiment.commands.options import LabelKey, Model, Table, TextKey
from mlstm_sentiment.reading.inputs import TableOptions
from model.inference.loading import Device, load_text_model

if TYPE_CHECKING:  # --help needs no torch
    from data_utils.labelled import LabelledSet
    from mlstm_sentiment.engine.interface import TextModel


# Further draws have the next seeds; scikit-learn's and NumPy's random_state ends at 2^32 - 1.
Seed = Annotated[int, Bound(min=0, below=2**31)]


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """The unit of a study, and the amount of measuring."""

    neuron: int | None = None
    """The unit. Default: the one of largest weight in the regression on all units."""
    labels: tuple[int, ...] = ()
    """Numbers of labels to learn from. Default: 10, 20, 50, 100, ... and all."""
    draws: PositiveInt = 10
    """Random draws for each number of labels."""
    untrained: PositiveInt = 3
    """Seeds of the untrained baseline; each processes all texts again."""
    seed: Seed = 0
    """Seeds all random draws and the untrained baseline."""


@dataclass(frozen=True, kw_only=True)
class LabelledTask:
    """The texts to read, and the model that reads them."""

    model: Model = "default"
    train: Path
    """Labelled texts to fit on: CSV, TSV, .xlsx, JSON lines, Parquet or Feather, also compressed,
    or a folder with pos/ and neg/."""
    val: Path
    """Labelled texts to choose C on and, with two classes, the threshold."""
    test: Path
    """Labelled texts to report on."""
    text_key: TextKey = ()
    table: Table = field(default_factory=TableOptions)
    label_key: LabelKey = None
    seed: Seed = 0
    """Seeds the untrained baseline."""
    device: Device = "auto"

    def read(self) -> "tuple[TextModel, list[LabelledSet]]":
        """Return the model, and the texts of train, val and test, which are read first."""
        from data_utils.labelled import read_labelled_sets

        paths = [self.train, self.val, self.test]
        sets = read_labelled_sets(paths, self.text_key, self.label_key, table=self.table)
        return load_text_model(self.model, device=self.device), sets
