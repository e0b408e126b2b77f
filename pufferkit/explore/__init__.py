"""The explorer: a page in the browser, from a file to a release. It calls the library only.

`server` serves it on loopback, `page` and the steps draw, `workspace` holds the state, and `calls`
are the calls of the library, run in a separate process (`worker`). The user's choices (`choices`)
create the objects of the library and write themselves as Python and as a command.
"""

from pufferkit.explore.server import serve

__all__ = ["serve"]
