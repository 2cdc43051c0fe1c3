"""python -m parley.node.post: one POST to the address on the first line of standard input, of the lines after it.

A process of its own, so that whoever started it can end it at any moment. The address is no argument, for arguments are
seen by everybody on the machine. No redirect is followed, no proxy is asked, and the answer is read no further than its
status. Exit code 0 for one of 200 to 299.
"""

import http.client
import ssl
import sys
from urllib.parse import urlsplit

SECONDS = 10.0
"""Of one step; whoever started this process ends all of it after as long."""


def post(url: str, body: bytes) -> int:
    """The answer's status."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    made: http.client.HTTPConnection
    if parts.scheme == "https":
        made = http.client.HTTPSConnection(host, parts.port, timeout=SECONDS, context=ssl.create_default_context())
    else:
        made = http.client.HTTPConnection(host, parts.port, timeout=SECONDS)
    try:
        path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        made.request("POST", path, body, {"Content-Type": "application/json", "User-Agent": "parley"})
        return made.getresponse().status
    finally:
        made.close()


def main() -> None:
    url, _, body = sys.stdin.buffer.read().partition(b"\n")
    try:
        status = post(url.decode("ascii"), body)
    except (OSError, http.client.HTTPException, ValueError):
        raise SystemExit(1) from None  # silently: an error's text may have the address
    raise SystemExit(0 if 200 <= status < 300 else 1)


if __name__ == "__main__":
    main()
