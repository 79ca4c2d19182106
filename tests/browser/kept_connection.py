"""Requests over one connection that stays open, as a browser keeps it; so a hundred clients cost the server what it costs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit


class KeptConnection:
    """One connection to a server, one request at a time, opened again where the server closed it."""

    def __init__(self, address: str) -> None:
        self._where = urlsplit(address)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._turn = asyncio.Lock()

    async def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Return status and body of the answer.

        Raises:
            OSError: if there is no server, or it broke off.
        """
        facts = (f"{method} {path} HTTP/1.1", f"Host: {self._where.netloc}", "Content-Type: application/json")
        head = "\r\n".join((*facts, f"Content-Length: {len(body)}", "", ""))
        async with self._turn:
            is_kept = self._streams is not None
            try:
                return await self._exchange(head.encode() + body)
            except EOFError as error:
                self.close()
                if not is_kept:
                    raise OSError("the server broke off") from error
            except BaseException:  # also who gives up waiting: the rest of the answer would be the next one's
                self.close()
                raise
        return await self.request(method, path, body)  # the server had closed it meanwhile

    async def _exchange(self, message: bytes) -> tuple[int, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._where.hostname, self._where.port)
        reader, writer = self._streams
        writer.write(message)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        lengths = [line.partition(":")[2] for line in head.split("\r\n") if line.startswith("content-length:")]
        return int(head.split(" ", 2)[1]), await reader.readexactly(int(lengths[0]))

    def close(self) -> None:
        if self._streams is not None:
            with suppress(OSError, RuntimeError):
                self._streams[1].close()
        self._streams = None
