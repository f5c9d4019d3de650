"""What `compare` does: judge files, or build two revisions and measure them until decided."""
