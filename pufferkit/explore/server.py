"""The server of the explorer: loopback only, a token in the address, no other origin.

Anyone who can open the page can spend the budget, so every request, including those for scripts and
the socket, must pass three checks. The address begins with the token, which other users of the
machine do not know. The ``Host`` is this server's, which excludes names that an attacker points to
127.0.0.1 (DNS rebinding). The ``Origin``, if sent, is this page's. The token is part of the path
and not a cookie, because cookies of 127.0.0.1 are sent to every port. Response headers forbid the
browser to load anything from elsewhere, to frame the page, and to send its address as referrer.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LOOPBACK = "127.0.0.1"

_REFUSED = b"Refused. Open the address that 'pufferkit explore' printed, with its token.\n"


def _headers(host: str) -> list[tuple[bytes, bytes]]:
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        f"font-src 'self'; img-src 'self' data:; connect-src 'self' ws://{host}"
    )
    return [
        (b"content-security-policy", policy.encode()),
        (b"referrer-policy", b"no-referrer"),
        (b"x-content-type-options", b"nosniff"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
    ]


class Guard:
    """Checks token, host and origin of every request before it reaches the page."""

    def __init__(self, app: Any, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._hosts = {f"{name}:{port}" for name in (LOOPBACK, "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if not self.allows(scope):
            await _refuse(scope, send)
            return
        host = _header(scope, b"host")

        async def sealed(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_headers(host)]
            await send(message)

        await self._app(scope, receive, sealed)

    def allows(self, scope: Scope) -> bool:
        """Whether a request has the token and comes from this page on this machine."""
        first = scope["path"].split("/")[1]
        host, origin = _header(scope, b"host"), _header(scope, b"origin")
        return (
            secrets.compare_digest(first.encode(), self._token.encode())
            and host in self._hosts
            and origin in ("", f"http://{host}")
        )


def _header(scope: Scope, name: bytes) -> str:
    """The value of a header; of one that is given twice, nothing that could be allowed."""
    values = [value for key, value in scope["headers"] if key == name]
    return "" if not values else values[0].decode("latin-1") if len(values) == 1 else "twice"


async def _refuse(scope: Scope, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": _REFUSED})


def serve(
    folder: str | Path, *, port: int = 0, opened: Callable[[str], None] | None = None
) -> None:
    """Serve the explorer on loopback until interrupted.

    Parameters
    ----------
    folder
        Folder for ledger, models and dropped files; created if it does not exist.
    port
        Port on loopback; 0 takes any free one.
    opened
        Called with the address, token included, once connections to it wait to be accepted.
    """
    try:
        import uvicorn  # noqa: PLC0415
        from fastapi import FastAPI  # noqa: PLC0415
        from nicegui import ui  # noqa: PLC0415
    except ImportError:
        raise ImportError(
            "the explorer needs nicegui, which is not installed; pip install 'pufferkit[explore]'"
        ) from None
    from pufferkit.explore.page import draw  # noqa: PLC0415
    from pufferkit.explore.workspace import Workspace  # noqa: PLC0415

    with contextlib.closing(_listening(port)) as listener, Workspace(Path(folder)) as workspace:
        port = listener.getsockname()[1]
        token = secrets.token_urlsafe(24)

        @contextlib.asynccontextmanager
        async def life(_: FastAPI) -> Any:
            workspace.start()
            if opened is not None:
                opened(f"http://{LOOPBACK}:{port}/{token}/")
            yield

        app = FastAPI(openapi_url=None, lifespan=life)
        ui.run_with(
            app,
            root=lambda: draw(workspace),
            title="pufferkit explorer",
            favicon="🐡",
            dark=None,
            language="en-US",
            mount_path=f"/{token}",
            show_welcome_message=False,
        )
        settings = uvicorn.Config(
            Guard(app, token, port), log_level="warning", access_log=False, server_header=False
        )
        uvicorn.Server(settings).run(sockets=[listener])


def _listening(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen()  # now, because the address is shown before uvicorn accepts
    except OSError as error:
        listener.close()
        raise ValueError(f"port: {port} cannot be used ({error.strerror}); leave it out") from None
    return listener
