"""The names of the files of a model and of a classifier."""

from ..text.tokenizer import TOKENIZER_FILE

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
MODEL_FILES = (WEIGHTS_FILE, CONFIG_FILE, TOKENIZER_FILE)  # of a model directory
CLASSIFIER_FILE = "classifier.json"  # in a folder of a classifier without a model
