"""The history as a folder of static pages that open from disk, offline."""
