# Tries: to open files without end.
# Must: stop at the limit, and be told it.
# Points: 0.6
# Together: limits
# Says: Too many open files | Files: one process may have 256 files open
held = []
try:
    while True:
        held.append(open("/dev/null"))
except OSError as full:
    held.clear()
    raise OSError(full.errno, full.strerror)
