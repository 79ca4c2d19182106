"""Print how long this machine takes for a fixed piece of work on two cores, in percent of the machine that `ceiling.toml`
counts by; at least 100.
"""

import argparse
import ast
import inspect
import multiprocessing
import time

SECONDS = 2.2  # of that machine


def work(_: int) -> float:
    """Parse and compile the same module again and again; return the seconds it took."""
    text, began = inspect.getsource(argparse), time.perf_counter()
    for _ in range(60):
        tree = ast.parse(text)
        compile(tree, "argparse", "exec")
        sum(1 for _ in ast.walk(tree))
    return time.perf_counter() - began


if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        print(max(100, round(100 * max(pool.map(work, range(2))) / SECONDS)))
