"""Tasks in parts on a cluster of Dask (extra `scale`): `cluster` connects, `shards` runs and remembers, the others are what
workers do.

Workers get paths of arrays and plain JSON. They never open a project's database: nothing here imports what does.
"""
