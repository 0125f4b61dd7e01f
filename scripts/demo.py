"""Write a model into one web page, which reads what you type and continues it.

python scripts/demo.py --output page.html
python scripts/demo.py --model runs/tour --neuron 7 --output page.html
"""

import command  # noqa: F401  # it finds our packages

from configs.device_options import run_on_any_device
from mlstm_sentiment.commands import demo

if __name__ == "__main__":
    run_on_any_device(demo, __doc__)
