# Tries: to answer with an object that equals everything, is every number, and hashes as it likes.
# Must: have it refused: only plain values travel.
# Points: 0.6
class Everything(int):
    def __eq__(self, other):
        return True

    __ne__ = __lt__ = __gt__ = __le__ = __ge__ = __eq__

    def __hash__(self):
        return 0

    def __index__(self):
        return 0


class MyAllocator:
    def __init__(self, **settings):
        pass

    def place(self, *_):
        return Everything(0)

    def reclaim(self, *_):
        pass
