"""Views choose the columns and rows of a table: one module per command or kind of report."""
