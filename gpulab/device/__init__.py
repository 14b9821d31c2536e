"""What takes time: kernels, streams and the two devices, simulated and real."""
