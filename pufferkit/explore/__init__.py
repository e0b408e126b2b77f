"""The explorer: a page in the browser, from a file to a release. It calls the library only.

`server` serves it on loopback, `page` and `steps` draw, `workspace` holds the state, and `tasks`
are the calls of the library, run in a separate process (`worker`). The user's choices are a recipe
(`recipes`), which creates the objects of the library and writes itself as Python and as a command.
"""

from pufferkit.explore.server import serve

__all__ = ["serve"]
