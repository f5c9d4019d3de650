"""Reports: figures of run files, and a page of them. Data becomes figures, which are drawn."""
