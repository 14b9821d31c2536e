# Tries: to fork without end.
# Must: stop at the limit, be told it, and be gone at the end.
# Points: 0.6
# Limits: {"processes": 40}
# Says: Resource temporarily unavailable | Processes: a notebook may have 40 processes
import os
import time

try:
    while True:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
finally:
    os.system("true")
