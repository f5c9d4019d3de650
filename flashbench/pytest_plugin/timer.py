"""The timer for pytest-benchmark, which replays what our clock has already measured."""


class Timer:
    """Shows a time that was measured elsewhere: what lies between `reset` and `show` is `seconds`.

    Both ends are set, not summed, so no digit is lost.
    """

    __name__ = "flashbench"  # what pytest-benchmark writes as the test's timer

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        return self._now

    def reset(self) -> None:
        self._now = 0.0

    def show(self, seconds: float) -> None:
        self._now = seconds
