# Tries: nothing: a right class among warnings, a failing cell, wide characters, an open file, a thread and input().
# Must: get its full build.
# Points: 4.8
# Says: StdinNotImplementedError
@SOLUTION@
# %%
import sys
import threading
import warnings

warnings.warn("ünïcödé 🧮")
print("on stderr", file=sys.stderr)
threading.Thread(target=input, daemon=True).start()
held = open("notes.txt", "w")
1 / 0
# %%
input("your name? ")
# %%
def deep():
    return deep()


deep()
