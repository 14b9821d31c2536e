# Tries: to find the secret in its own memory, left over from the process it was forked from.
# Must: find it nowhere.
# Points: 0.6
# Together: reads
# Says: pieces in memory: 0
def pieces_in_memory(first, second):
    """How often ``first`` is followed by ``second``; the two are never joined, so this finds no copy of its own."""
    found = 0
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            low, high = (int(end, 16) for end in span.split("-"))
            if "r" not in rights or "[v" in line or high - low > 2**28:
                continue
            memory.seek(low)
            try:
                held = memory.read(high - low)
            except OSError:
                continue
            at = held.find(first)
            while at >= 0:
                found += held[at + len(first) : at + len(first) + len(second)] == second
                at = held.find(first, at + 1)
    return found


print("pieces in memory:", pieces_in_memory(b"canary", b"-4f1c"))
