"""Measuring: worker processes, clocks, checks. Data flows as docs/measuring.md tells."""
