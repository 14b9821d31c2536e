# Tries: to open the gradebook and write a mark into it.
# Must: find no such database.
# Points: 0.6
# Together: reads
# Says: unable to open database file
import sqlite3

sqlite3.connect("@COURSE@/gradebook.db").execute("UPDATE grade SET auto_score = 6")
