"""What holds for the whole suite."""

import signal

from hypothesis import settings

# A busy machine is no failure.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_configure() -> None:
    """A shell starts jobs in the background deaf to Ctrl-C, and so all that tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
