# Tries: to fill the disk with many files.
# Must: fill only its own room, and be told the limit.
# Points: 0.6
# Together: limits
# Limits: {"disk_bytes": 100000000}
# Says: No space left | Files: all together may take 95 MiB
import glob
import os

try:
    for number in range(200):
        with open(f"part-{number}", "wb") as out:
            out.write(bytes(2**20))
finally:
    for path in glob.glob("part-*"):
        os.unlink(path)
