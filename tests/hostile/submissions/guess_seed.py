# Tries: to draw the graded inputs itself, from the secrets it can think of.
# Must: have no secret: the course it sees is the public card.
# Points: 0.6
# Together: forges
# Says: ValueError
from autograder.course import Course

Course.at_hand().graded("02.first-fit", 0)
