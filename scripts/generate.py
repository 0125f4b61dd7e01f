"""Continue a prompt with a model; to shift the sentiment, clamp a unit to a value.

python scripts/generate.py --model runs/tour --prompt "I thought this"
python scripts/generate.py --model runs/tour --prompt "I thought this" --value -2 --temperature 0.7
python scripts/generate.py --model runs/tour --neuron 7 --value 2 --samples 3 --seed 1 --stop
"""

import command  # noqa: F401  # it finds our packages

from configs.device_options import run_on_any_device
from mlstm_sentiment.commands import generate

if __name__ == "__main__":
    run_on_any_device(generate, __doc__)
