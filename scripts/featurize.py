"""Write the features of texts, float32 [N, F]: by default, the final cell state of each text.

python scripts/featurize.py --model runs/tour --input texts.csv --output features.npy
python scripts/featurize.py --model runs/tour --input texts.csv --output unit7.npy \\
    --pooling mean --units 7
"""

import command  # noqa: F401  # it finds our packages

from configs.device_options import run_on_any_device
from mlstm_sentiment.commands import featurize

if __name__ == "__main__":
    run_on_any_device(featurize, __doc__)
