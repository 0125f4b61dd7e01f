"""What forked.py imports once for all commands, and what reading the options of main.py imports."""

import configs.run
import data_utils.preparation.preparation
import mlstm_sentiment
import mlstm_sentiment.pages.heatmap
import training.checkpoint
import training.evaluation
import transfer.experiment
from configs.options import RunOptions

RunOptions.from_command_line([])

__all__ = ["configs", "data_utils", "mlstm_sentiment", "training", "transfer"]
