"""Who may open the explorer: the token, this machine's name and this page's origin."""

import asyncio
import socket

import pytest

from pufferkit.explore.server import LOOPBACK, Guard, _listening

TOKEN, PORT = "s3cret", 4321
HERE = f"127.0.0.1:{PORT}"


async def _inside(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"the page"})


def asked(path, headers, kind="http"):
    """What the guard sends back."""
    sent = []

    async def send(message):
        sent.append(message)

    scope = {
        "type": kind,
        "path": path,
        "headers": [(k.encode(), v.encode()) for k, v in headers],
    }
    asyncio.run(Guard(_inside, TOKEN, PORT)(scope, None, send))
    return sent


@pytest.mark.parametrize(
    "headers",
    [
        [("host", HERE)],
        [("host", f"localhost:{PORT}")],
        [("host", HERE), ("origin", f"http://{HERE}")],
        [("host", f"localhost:{PORT}"), ("origin", f"http://localhost:{PORT}")],
    ],
)
def test_the_page_itself_is_let_in(headers):
    start, body = asked(f"/{TOKEN}/", headers)
    assert start["status"] == 200
    assert body["body"] == b"the page"


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", [("host", HERE)]),
        ("/wrong/", [("host", HERE)]),
        (f"/{TOKEN}x/", [("host", HERE)]),
        ("/_nicegui/3/static/vue.js", [("host", HERE)]),
        (f"/x/../{TOKEN}/", [("host", HERE)]),
        (f"/{TOKEN}/", []),
        (f"/{TOKEN}/", [("host", "rebound.example")]),
        (f"/{TOKEN}/", [("host", f"rebound.example:{PORT}")]),
        (f"/{TOKEN}/", [("host", "127.0.0.1")]),
        (f"/{TOKEN}/", [("host", f"127.0.0.1:{PORT + 1}")]),
        (f"/{TOKEN}/", [("host", HERE), ("host", "rebound.example")]),
        (f"/{TOKEN}/", [("host", HERE), ("origin", "http://evil.example")]),
        (f"/{TOKEN}/", [("host", HERE), ("origin", f"https://{HERE}")]),
        (f"/{TOKEN}/", [("host", HERE), ("origin", f"http://localhost:{PORT}")]),
        (f"/{TOKEN}/", [("host", HERE), ("origin", f"http://127.0.0.1:{PORT + 1}")]),
        (f"/{TOKEN}/", [("host", HERE), ("origin", "null")]),
    ],
)
def test_everything_else_is_refused_pages_and_sockets_alike(path, headers):
    assert asked(path, headers)[0]["status"] == 403
    assert asked(path, headers, "websocket") == [{"type": "websocket.close", "code": 1008}]


def test_answers_forbid_other_origins_frames_and_referrers():
    start, _ = asked(f"/{TOKEN}/", [("host", HERE)])
    told = {name.decode(): value.decode() for name, value in start["headers"]}
    policy = told["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "http://" not in policy
    assert f"ws://{HERE}" in policy
    assert told["referrer-policy"] == "no-referrer"


def test_a_connection_waits_from_the_moment_the_port_is_known():
    with _listening(0) as listener, socket.create_connection(listener.getsockname(), timeout=5):
        assert listener.getsockname()[0] == LOOPBACK
        with pytest.raises(ValueError, match=r"port: .* cannot be used"):
            _listening(listener.getsockname()[1])
