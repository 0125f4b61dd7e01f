"""What forked.py imports once for all commands; nothing here has an effect."""

import configs.run
import data_utils.preparation.preparation
import model
import model.pages.heatmap
import training.checkpoint
import training.evaluation
import transfer.experiment

__all__ = ["configs", "data_utils", "model", "training", "transfer"]
