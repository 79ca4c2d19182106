"""Things that must not be touched while a hostile file is read: a server on this machine, and a folder that is watched."""

import ctypes
import os
import socket
import struct
import threading
from pathlib import Path


class Server:
    """A web server on 127.0.0.1 that answers everybody and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(1.0)
                self.asked.append(b"a connection")
                try:
                    self.asked[-1] = connection.recv(4096)
                    connection.sendall(b"HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                except OSError:
                    pass

    def close(self) -> None:
        self._socket.close()


class WatchedFolder:
    """Notes every opening, reading, writing, making and removing of a file in a folder, by any process (inotify, Linux)."""

    _OPENED, _WORDS = 0x20, {0x1: "read", 0x2: "written", 0x20: "opened", 0x40: "left", 0x100: "made", 0x200: "removed"}

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._queue = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._queue < 0 or libc.inotify_add_watch(self._queue, os.fsencode(folder), sum(self._WORDS)) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def touched(self) -> list[str]:
        """Return what happened since the last call, such as "opened secret.txt"; looks at the folder itself are left out."""
        found = []
        while True:
            try:
                data = os.read(self._queue, 65536)
            except BlockingIOError:
                return found
            at = 0
            while at < len(data):
                _, mask, _, size = struct.unpack_from("iIII", data, at)
                name = data[at + 16 : at + 16 + size].rstrip(b"\0").decode()
                at += 16 + size
                found += [f"{word} {name}" for bit, word in self._WORDS.items() if mask & bit and name]

    def close(self) -> None:
        os.close(self._queue)


def snapshot(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return every file and folder below one, links not followed, with its kind, size and time of change."""
    found = {}
    for path in sorted(folder.rglob("*")):
        facts = path.lstat()
        found[str(path.relative_to(folder))] = (facts.st_mode, facts.st_size, facts.st_mtime_ns)
    return found
