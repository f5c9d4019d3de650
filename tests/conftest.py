"""What holds for the whole suite."""

import signal


def pytest_configure() -> None:
    """A shell starts jobs in the background deaf to Ctrl-C, and so all that tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
