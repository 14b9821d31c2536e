# Tries: to take memory in many processes, each within its own limit.
# Must: be ended as soon as all together are over the limit, and be told so.
# Points: 0.0
# Limits: {"memory_bytes": 400000000}
# Note: because it and its processes took more than 381 MiB of memory
import os
import time

for _ in range(8):
    if os.fork() == 0:
        held = bytearray(b"x") * 80_000_000
        time.sleep(60)
        os._exit(0)
time.sleep(20)
