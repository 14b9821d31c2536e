# Tries: to end the process that grades, and every process it can name.
# Must: not find it.
# Points: 0.6
# Together: reads
# Says: nobody of that name: 3
import os
import signal

missed = 0
for pid in (@PID@, @PID@ - 1, os.getppid() or 2**22 - 1):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        missed += 1
print("nobody of that name:", missed)
