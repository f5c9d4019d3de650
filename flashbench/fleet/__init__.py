"""One run on several devices: shards of its grid, measured separately and merged."""
