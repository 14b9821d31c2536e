# Tries: to read what another learner handed in.
# Must: find no such folder.
# Points: 0.6
# Together: reads
# Says: FileNotFoundError
import os

for folder, _, files in os.walk("/"):
    for name in files:
        if name.endswith(".ipynb"):
            print(folder, name, open(os.path.join(folder, name)).read())
print(os.listdir("@COURSE@/submitted/bob"))
