"""An ssh ProxyCommand that drops the connection after BYTES sent: `dropping_proxy.py PORT
BYTES`."""

import os
import socket
import sys
from threading import Thread

with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as line:

    def back() -> None:
        while data := line.recv(65536):
            os.write(1, data)

    Thread(target=back, daemon=True).start()
    left = int(sys.argv[2])
    while left > 0 and (data := os.read(0, 65536)):
        line.sendall(data)
        left -= len(data)
os._exit(0)
