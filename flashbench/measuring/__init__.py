"""Measuring: worker processes, clocks, checks. docs/measuring.md describes the data flow."""
