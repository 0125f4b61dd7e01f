"""What forked.py imports once for all commands, and what reading the options of main.py imports."""

import gc
from importlib import import_module

import training.monitor
from configs.options import RunOptions

# What commands import only when they need it.
NAMES = """
    configs.device_options configs.run data_utils.preparation.preparation
    mlstm_sentiment mlstm_sentiment.commands.command_line mlstm_sentiment.commands.evaluate
    mlstm_sentiment.commands.options mlstm_sentiment.engine.sampling mlstm_sentiment.pages.heatmap
    mlstm_sentiment.pages.report mlstm_sentiment.rows.classified_rows model.cell
    model.inference.features model.inference.loading model.kernels.amx.mlstm model.kernels.cpp.mlstm
    model.kernels.reference.mlstm model.kernels.torch.mlstm model.layers.mlstm scaling.planner
    sentencepiece training.checkpoint training.evaluation training.optimizers.muon
    training.runs.signals transfer.experiment
    transfer.finetuning.experiment transfer.neuron.report transfer.neuron.study transfer.summary
    transfer.task
"""
for name in NAMES.split():
    import_module(name)

RunOptions.from_command_line([])
# What a run writes at every evaluation takes longer than a small one's training.
training.monitor.SAMPLE_LENGTH = 24

# Of objects that stay, no child collects the garbage again: as long as a small command takes.
gc.freeze()
