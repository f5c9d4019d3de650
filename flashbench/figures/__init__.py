"""Reports: figures of run files, and a page of them: data -> figures as data -> pictures."""
