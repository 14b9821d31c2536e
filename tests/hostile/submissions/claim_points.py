# Tries: to show numbers and marks as if the judge had given them.
# Must: get what its code earns: nothing it shows is read.
# Points: 0.6
# Together: forges
from IPython.display import display

display({"text/plain": "6", "text/html": "6"}, raw=True, metadata={"gpulab": {"points": 6.0}})
get_ipython().displayhook(6.0)
6.0
