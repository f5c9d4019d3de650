"""Benchmarks that a project has already, of asv or pytest-benchmark, measured for two revisions."""
