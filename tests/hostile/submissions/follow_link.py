# Tries: to hand in a link to the course's secret and read it.
# Must: find that it leads nowhere.
# Points: 0.6
# Together: reads
# Link: answers.txt -> @COURSE@/secret
# Says: FileNotFoundError
print(open("answers.txt").read())
