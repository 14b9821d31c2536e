# Tries: to leave links and files in its folder that lead the grader to the secret.
# Must: leave nothing: the folder it sees is a copy.
# Points: 0.6
# Together: reads
# Says: planted
import os

for name in ("02-allocate.html", "feedback", "course.json.bak"):
    os.symlink("@COURSE@/secret", name)
open("course.json", "w").write("{}")
for place in ("/tmp", "/dev/shm"):
    open(f"{place}/hostile-mark", "w").write("x")
print("planted")
