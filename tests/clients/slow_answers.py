"""Stands before a server, and holds its answers to some statements: a source that takes its time to read rows."""

import asyncio
import contextlib
from collections.abc import Iterator
from threading import Thread


class SlowAnswers:
    """What goes to a server at `target` and back; an answer to a statement with `held` in it comes `seconds` late."""

    def __init__(self, target: int, held: bytes, seconds: float) -> None:
        self.port = 0
        self.times = 0
        self._target = target
        self._held = held
        self._seconds = seconds

    async def accept(self) -> asyncio.Server:
        """Take connections from now on, at `port`."""
        listening = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = listening.sockets[0].getsockname()[1]
        return listening

    async def _connected(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection("127.0.0.1", self._target)
        go_on = asyncio.Event()
        go_on.set()

        async def ask() -> None:
            while data := await client.read(1 << 16):
                if self._held in data:
                    self.times += 1
                    go_on.clear()
                    asyncio.get_running_loop().call_later(self._seconds, go_on.set)
                to_server.write(data)

        async def answer() -> None:
            while data := await server.read(1 << 16):
                await go_on.wait()
                to_client.write(data)
                await to_client.drain()

        both = [asyncio.create_task(way()) for way in (ask, answer)]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for writer in (to_client, to_server):
            writer.close()
        await asyncio.gather(*both, return_exceptions=True)


@contextlib.contextmanager
def slow_answers(target: int, held: bytes, seconds: float) -> Iterator[SlowAnswers]:
    """Take connections for as long as the context lasts."""
    found, loop = SlowAnswers(target, held, seconds), asyncio.new_event_loop()
    listening = loop.run_until_complete(found.accept())
    thread = Thread(target=loop.run_forever)
    thread.start()
    try:
        yield found
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        listening.close()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0.1))
        loop.close()
