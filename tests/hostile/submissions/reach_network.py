# Tries: to reach a server on this machine, a name server, and a socket of the host.
# Must: have no network and see no such socket.
# Points: 0.6
# Together: reads
# Says: ConnectionRefusedError | Network: there is none | FileNotFoundError
import socket

socket.create_connection(("127.0.0.1", @PORT@), timeout=2)
# %%
import socket

socket.create_connection(("9.9.9.9", 53), timeout=2)
# %%
import socket

socket.socket(socket.AF_UNIX).connect("@SOCKET@")
