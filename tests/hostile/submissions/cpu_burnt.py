# Tries: to burn processor time beyond the limit.
# Must: be ended, and be told so.
# Points: 0.0
# Limits: {"cpu_seconds": 1}
# Note: because it had used 1 s of processor time
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
