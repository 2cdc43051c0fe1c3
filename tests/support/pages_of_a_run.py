"""What several tests of pages need."""

import asyncio
from typing import Any

from tests.support.browser import Browser


async def stream_of(made: Browser, during: Any) -> str:
    """What a page would hear while something happens."""
    pages, row = made.app.state.pages, made.app.state.wiring.store.runs()[0]

    class Request:
        def __init__(self) -> None:
            self.cookies = dict(made.client.cookies)

    said = ""
    async for piece in pages._follow(row, None, Request()):
        said += str(piece)
        if piece.startswith("retry"):
            await asyncio.to_thread(during)
        if "event: changed" in said and "event: line" in said:
            return said
    return said
