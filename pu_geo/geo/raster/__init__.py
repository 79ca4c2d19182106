"""Scenes: how their files are opened, where they lie on the project grid, and their pixels on it.

Others may use the modules listed here and no other: an opened scene is a `mosaic.Mosaic`. Whether a file can be a scene is
decided by `scene_files.describe`, in the child process alone; `readers.in_child.describe_each` asks for it.
"""

__all__ = ["clouds", "guard", "mosaic", "placement", "quicklooks", "reading", "scaling"]
