# Tries: to end its own process before it is graded.
# Must: get nothing, with the reason.
# Points: 0.0
# Note: the kernel ended while cell 3 was running
import os

os._exit(0)
