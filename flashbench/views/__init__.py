"""Views: what of a report goes into a table."""
