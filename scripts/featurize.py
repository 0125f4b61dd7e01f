"""Write the features of texts, float32 [N, F]: by default, the final cell state of each text.

python scripts/featurize.py --model runs/tour --input texts.csv --output features.npy
python scripts/featurize.py --model runs/tour --input texts.csv --output unit7.npy \\
    --pooling mean --units 7
"""

from dataclasses import dataclass

import command

from configs.device_options import DeviceOptions
from mlstm_sentiment.commands import featurize
from mlstm_sentiment.commands.command_line import call


@dataclass(frozen=True, kw_only=True)
class Options(DeviceOptions, featurize.Options):
    __doc__ = featurize.Options.__doc__


if __name__ == "__main__":
    command.run(lambda: call(Options, featurize.run, __doc__))
