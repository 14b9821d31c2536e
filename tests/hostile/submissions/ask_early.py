# Tries: to talk to the judge itself: before its time, out of turn, as another exercise, from another process.
# Must: be told "not open", and change nothing.
# Points: 0.6
# Together: forges
# Says: b'not open' b'not open' b'not open'
import json
import os
import socket

told = []
for hello in (["02.first-fit", {"learner": "ann"}], ["02.pool", {}], ["02.first-fit", 6.0, {"points": 6.0}]):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as judge:
        judge.connect(os.environ["GPULAB_JUDGE"])
        judge.send(json.dumps(hello).encode())
        told.append(judge.recv(1000) or b"not open")
print(*told)
