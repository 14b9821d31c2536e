# Tries: to write one file of 200 MB.
# Must: stop at the limit, and be told it.
# Points: 0.6
# Together: limits
# Says: File too large | Files: one file may be 64 MiB long
with open("long", "wb") as out:
    for _ in range(200):
        out.write(bytes(2**20))
