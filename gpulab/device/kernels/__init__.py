"""The kernels that gpulab ships, each with its cost, its NumPy meaning and its CUDA C in one file."""

from gpulab.device.kernels.copy import COPY
from gpulab.device.kernels.fill import FILL
from gpulab.device.kernels.gather import GATHER
from gpulab.device.kernels.matmul import MATMUL
from gpulab.device.kernels.paged_attention import PAGED_ATTENTION
from gpulab.device.kernels.saxpy import SAXPY
from gpulab.device.kernels.softmax import SOFTMAX
from gpulab.device.kernels.spin import SPIN

KERNELS = (COPY, FILL, SAXPY, GATHER, SOFTMAX, MATMUL, PAGED_ATTENTION, SPIN)
