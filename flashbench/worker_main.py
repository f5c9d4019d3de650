"""Entry points of a worker process and of the server that forks workers. They pass in what loads
built revisions."""

from flashbench.measuring import fork_server, worker
from flashbench.revisions.in_worker import RevisionsInWorker


def main(handle: int) -> None:
    """Be a worker. handle: its end of the socket."""
    worker.main(handle, RevisionsInWorker)


def serve(handle: int) -> None:
    """Fork workers until the socket `handle` closes."""
    fork_server.main(handle, main)
