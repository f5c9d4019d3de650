"""Set up a repository that does not know flashbench: find the kernel and its build, write settings
and an adapter, and try them."""
