"""Who shares a device: partitions, sharing modes, placement, leases. Nothing lives here yet (lab 05)."""
