# Tries: to import the references, that is, the solutions, and to read their source.
# Must: find an empty folder.
# Points: 0.6
# Together: reads
# Says: ModuleNotFoundError | FileNotFoundError | []
import os

print(os.listdir("@REPO@/autograder/references"))
# %%
from autograder.references.lab02 import MyAllocator
# %%
print(open("@REPO@/autograder/references/lab02.py").read())
