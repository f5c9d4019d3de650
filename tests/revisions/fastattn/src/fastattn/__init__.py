"""A small attention project by another author."""
