"""Guards for a class in two halves, final methods around hooks: a learner's names must not hide the other half."""

from gpulab.memory import explain


def refuse_taken_names(cls: type, root: type, hooks: tuple[str, ...], kind: str) -> None:
    """Nothing, when the body of ``cls`` writes only ``hooks`` of ``root`` and names of its own.

    Raises:
        AllocatorFault: it defines another name that every ``kind`` has, or builds upon a final class.
    """
    for parent in cls.__mro__[1:]:
        if "__final__" in vars(parent):  # typing.final leaves it there
            raise explain.is_final(cls, parent)
    for name in vars(cls):
        if name not in hooks and not name.startswith("__") and hasattr(root, name):
            raise explain.name_taken(f"class {cls.__name__} defines `{name}`", name, kind)


def prepare_safely(thing: object, root: type, others: set[str], kind: str) -> None:
    """Call ``thing.prepare()`` and see that it left the books of ``root`` alone.

    ``others`` are attributes that a subclass set before; ``rules`` are its own to change, too.

    Raises:
        AllocatorFault: it set an attribute or a method that every ``kind`` has.
    """
    mine = {name: value for name, value in vars(thing).items() if name not in {*others, "rules"}}
    thing.prepare()
    for name, value in vars(thing).items():
        if mine.get(name, value) is not value or (name not in mine and hasattr(root, name)):
            raise explain.name_taken(f"{type(thing).__name__}.prepare set `self.{name}`", name, kind)
