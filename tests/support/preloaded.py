"""What forked.py imports once for all commands, and what reading the options of main.py imports."""

import gc

import configs.run
import data_utils.preparation.preparation
import mlstm_sentiment
import mlstm_sentiment.pages.heatmap
import training.checkpoint
import training.evaluation
import training.monitor
import transfer.experiment
from configs.options import RunOptions

RunOptions.from_command_line([])
# What a run writes at every evaluation takes longer than a small one's training.
training.monitor.SAMPLE_LENGTH = 24

__all__ = ["configs", "data_utils", "mlstm_sentiment", "training", "transfer"]

# Of objects that stay, no child collects the garbage again: as long as a small command takes.
gc.freeze()
