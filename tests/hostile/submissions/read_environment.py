# Tries: to find the secret in the environment of any process it can see.
# Must: see its own processes alone, with a clean environment.
# Points: 0.6
# Together: reads
# Says: all of them my own: True
import glob
import os

print("all of them my own:", max(int(name) for name in os.listdir("/proc") if name.isdigit()) < 100)
print(dict(os.environ))
for path in glob.glob("/proc/[0-9]*/environ"):
    print(open(path, "rb").read())
