"""pytest-benchmark's fixture on our clock: checks and times a call as `flashbench run` does."""

import warnings
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

from flashbench.baseline_names import is_baseline_name
from flashbench.candidates import reason
from flashbench.measuring import torch_settings
from flashbench.measuring.checks import WrongError, check_candidate, check_inputs, check_output
from flashbench.measuring.clock import Call, MetricUnavailableError, Output
from flashbench.measuring.environment import throttled
from flashbench.metric import DEFAULT_METRIC
from flashbench.other_tools.pytest_benchmark import EXTRA
from flashbench.pytest_plugin.prepared import Prepared, call_of, clock_of
from flashbench.sample_counts import affordable_samples, split_samples


class OurBenchmark(BenchmarkFixture):
    """The fixture `benchmark` of marked tests; a round is one sample of our clock."""

    prepared: Prepared
    samples: int
    metric: str

    def __call__(self, function_to_benchmark: Any, *args: Any, **kwargs: Any) -> Output:
        """Check the function's output, time the function, and return the output.

        Fails the test if the result is wrong; skips it if the case is not supported.
        """
        prepared = self.prepared
        loaded = prepared.loaded if function_to_benchmark is prepared else None
        name = loaded.name if loaded else getattr(function_to_benchmark, "__name__", "candidate")
        if loaded is None and is_baseline_name(name):
            raise _failed(f"the function has the baseline's name {name!r}: rename it")
        if function_to_benchmark is prepared and loaded is None:
            prepared()  # fails with the reason
        call = call_of(prepared, function_to_benchmark, *args, **kwargs)
        settings = torch_settings.current()
        with torch.no_grad(), loaded.scope() if loaded else nullcontext():
            self._check(call)
            seconds, calls, out = self._time(call) if self.enabled else ([], 0, call())
        changed = torch_settings.restore(settings)
        if changed:
            pytest.fail(f"changed torch's settings for all that run after it: {changed}", False)
        self.extra_info[EXTRA] = self._identity(name, calls)
        return self._hand_over(seconds, out)

    def pedantic(
        self,
        target: Any,
        args: Any = (),
        kwargs: Any = None,
        setup: Any = None,
        teardown: Any = None,
        rounds: int = 1,
        warmup_rounds: int = 0,
        iterations: int = 1,
    ) -> Output:
        """Same as `benchmark(target, *args, **kwargs)`: our clock chooses rounds, iterations and
        warm-up."""
        if setup or teardown:
            pytest.fail(
                "flashbench's clock takes no setup or teardown: it calls back to back", False
            )
        return self(target, *args, **(kwargs or {}))

    def _check(self, call: Call) -> None:
        loaded = self.prepared.loaded
        caught: list[warnings.WarningMessage] = []
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                check_candidate(self.prepared.problem, call, clock_of(self._device).synchronize)
        except WrongError as error:
            raise _failed(f"wrong result: {error}") from None
        except Exception as error:
            refused = loaded.refuses(error) if loaded else isinstance(error, NotImplementedError)
            if not refused:
                raise
            raise pytest.skip.Exception(f"not supported: {reason(error, caught)}") from None

    def _time(self, call: Call) -> tuple[list[float], int, Output]:
        """(seconds per call of each sample, calls per sample, the output of the last call)."""
        problem, clock = self.prepared.problem, clock_of(self._device)
        seconds: list[float] = []
        dropped = 0
        try:
            sampler = clock.sampler(self.metric, call)
            wanted = affordable_samples(
                {"": sampler.sample_seconds}, self.samples, clock.max_metric_seconds
            )[""]
            for share in split_samples(wanted):
                problem.flip()  # the sign exposes a cached output
                clock.rest()
                slow = throttled(self._device)
                block = sampler.block(share)
                if slow or throttled(self._device):
                    dropped += 1
                else:
                    seconds += block
            check_output(problem, sampler.last, problem.sign, "the output of the timed calls: ")
            check_inputs(problem)
        except MetricUnavailableError as error:
            raise _failed(f"no {self.metric}: {error}") from None
        except WrongError as error:
            raise _failed(f"wrong result: {error}") from None
        if not seconds:
            pytest.skip(f"the GPU throttled during all {dropped} blocks: nothing was measured")
        return seconds, sampler.calls, sampler.last

    def _hand_over(self, seconds: list[float], out: Output) -> Output:
        """Pass the samples to pytest-benchmark through the timer, one per round."""
        rounds = iter(seconds)
        timer = self._timer

        def show() -> Output:
            for sample in rounds:
                timer.show(sample)
                break
            return out

        result: Output = BenchmarkFixture.pedantic(
            self, show, setup=timer.reset, rounds=max(1, len(seconds))
        )
        return result

    @property
    def _device(self) -> str:
        return self.prepared.case.device

    def _identity(self, candidate: str, calls: int) -> dict[str, str | int]:
        """`other_tools.pytest_benchmark.PluginInfo`, and calls per sample for human readers."""
        return {
            "case": self.prepared.case.id,
            "candidate": candidate,
            "metric": self.metric,
            "device": self._device,
            "gpu": torch.cuda.get_device_name() if self._device == "cuda" else "",
            "torch": str(torch.__version__),
            "calls": calls,
        }


def adopt(fixture: object, prepared: Prepared, *, samples: int, metric: str | None) -> None:
    """Turn this test's `benchmark` fixture into ours.

    Changes its class in place, because pytest-benchmark checks at the end that the fixture is the
    object that it made.
    """
    if not isinstance(fixture, BenchmarkFixture):
        pytest.fail("the marker needs pytest-benchmark's fixture `benchmark`", False)
    metrics = clock_of(prepared.case.device).metrics
    chosen = metric or DEFAULT_METRIC[prepared.case.device]
    if chosen not in metrics:
        pytest.fail(f"no {chosen} on {prepared.case.device}; it has {', '.join(metrics)}", False)
    fixture.__class__ = OurBenchmark
    assert isinstance(fixture, OurBenchmark)
    fixture.prepared, fixture.samples, fixture.metric = prepared, samples, chosen


def _failed(message: str) -> BaseException:
    return pytest.fail.Exception(message, pytrace=False)
