# Tries: to go on for ever, swallowing every interrupt.
# Must: be ended, with the reason.
# Points: 0.0
# Timeout: 1
# Note: cell 3 went on after 1 s, and after an interrupt
import time

while True:
    try:
        time.sleep(9)
    except BaseException:
        pass
