from pathlib import Path


class Scale:
    """The number that the commit's library holds."""

    version = "1"
    unit = "scale"
    params = (["kernel", "twice"],)
    param_names = ("what",)

    def setup_cache(self):
        from flashbench.candidates import OUR_CALLABLE
        from flashbench.history.commit import installed
        from flashbench.revisions.load import load_callable

        loaded = load_callable(installed().require(), OUR_CALLABLE)
        Path("scale").write_text(str(loaded.modules["flashbench._C"].scale()))

    def track_scale(self, what):
        value = float(Path("scale").read_text()) * (2 if what == "twice" else 1)
        return {"samples": [value, value], "number": 1}
