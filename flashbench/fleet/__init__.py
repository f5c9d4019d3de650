"""One run on several devices: shards of its grid, measured apart and merged."""
