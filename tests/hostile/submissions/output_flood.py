# Tries: to print 40 MB.
# Must: have its output cut at a million characters.
# Points: 0.6
# Together: limits
# Says: more than 1,000,000 characters of output: cut here
for _ in range(400):
    print("x" * 100_000)
