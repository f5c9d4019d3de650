"""The history as a folder of static pages that open from a file, offline."""
