"""The name of a device, as people know it."""

from __future__ import annotations

import torch

_GIB = 2**30


def name_of(device: torch.device) -> str:
    """Name a device: "NVIDIA H200, 139 GiB", "Apple GPU", or "CPU, 2 threads" as many as torch uses now."""
    if device.type == "cuda":
        found = torch.cuda.get_device_properties(device)
        return f"{found.name}, {found.total_memory / _GIB:.0f} GiB"
    if device.type == "mps":
        return "Apple GPU"
    n = torch.get_num_threads()
    return f"CPU, {n} thread{'' if n == 1 else 's'}"
