"""Worker processes ignore Ctrl-C, which the main process handles."""

import signal

from data_utils.preparation.processes import map_in_order


def test_ctrl_c_is_left_to_the_process_that_waits():
    before = signal.getsignal(signal.SIGINT)
    handlers = map_in_order(signal.getsignal, [signal.SIGINT] * 3, workers=2)
    assert list(handlers) == [signal.SIG_IGN] * 3
    assert list(map_in_order(signal.getsignal, [signal.SIGINT], workers=1)) == [before]
