"""The history of a repository in asv's results: written, read and searched for changes."""
