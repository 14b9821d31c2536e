"""What a program holds of a device: arrays and marks."""

from typing import TYPE_CHECKING, final

from gpulab.memory.extent import Extent

if TYPE_CHECKING:
    import numpy as np

    from gpulab.device.device import Device


@final
class Array:
    """Device memory with a shape and a type, held until ``device.free``. Not to be read from the host.

    ``extent`` says which bytes it holds, ``owner`` for whom. The bytes of a new array are what nobody
    set: 0xFF on the simulated device, so that a float read from it is NaN.
    """

    __slots__ = ("data", "device", "dtype", "earlier", "extent", "held", "shape", "touched")

    def __init__(self, device: "Device", extent: Extent, shape: tuple[int, ...], dtype: "np.dtype") -> None:
        self.device, self.extent, self.shape, self.dtype = device, extent, shape, dtype
        self.held, self.data = True, None  # data: of the device's xp; made when first touched
        self.touched, self.earlier = None, ()  # who used these bytes, and the freed arrays under them

    @property
    def owner(self) -> str:
        """For whom the bytes are held."""
        return self.extent.owner

    def __repr__(self) -> str:
        held = "" if self.held else ", freed"
        return f"<Array {self.dtype}{list(self.shape)} at {self.extent.offset:,}{held}>"


@final
class Mark:
    """A point in a stream: reached when everything before it there is done. ``stream.mark()`` makes one."""

    __slots__ = ("device", "known", "stream", "work")

    def __init__(self, device: "Device", stream: str, work: object, known: dict[int, int]) -> None:
        self.device, self.stream, self.work, self.known = device, stream, work, known
