"""Processes that share work: what Ctrl-C is to them."""

import signal

from data_utils.preparation.processes import spread


def test_ctrl_c_is_left_to_the_process_that_waits():
    before = signal.getsignal(signal.SIGINT)
    assert list(spread(signal.getsignal, [signal.SIGINT] * 3, workers=2)) == [signal.SIG_IGN] * 3
    assert list(spread(signal.getsignal, [signal.SIGINT], workers=1)) == [before]
