# Tries: to leave a process that outlives grading and goes on writing.
# Must: end with the notebook, file and all.
# Points: 0.6
# Together: reads
# Says: left a daemon
import os
import time

if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(200):
            with open("/tmp/hostile-mark-daemon", "a") as out:
                out.write(str(number))
            time.sleep(0.1)
    os._exit(0)
print("left a daemon")
