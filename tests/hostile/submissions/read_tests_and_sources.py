# Tries: to read the tests, with their wrong and right answers, and the labs' sources.
# Must: see of the repository the packages alone.
# Points: 0.6
# Together: reads
# Says: ['autograder', 'datasets', 'gpulab']
import os

print(sorted(set(os.listdir("@REPO@")) - {".venv"}))
