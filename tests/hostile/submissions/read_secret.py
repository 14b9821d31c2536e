# Tries: to read the course's secret, by its path and by walking up from its own folder.
# Must: find no such file.
# Points: 0.6
# Together: reads
# Says: FileNotFoundError | nothing upwards
import glob

print("found" if any(glob.glob("../" * n + "secret") for n in range(9)) else "nothing upwards")
# %%
print(open("@COURSE@/secret").read())
