# Tries: to take 6 GB at once.
# Must: get a MemoryError, and be told the limit.
# Points: 0.6
# Together: limits
# Says: MemoryError | Memory: one process may map 4,096 MiB
held = bytearray(6 * 2**30)
