"""The explorer: a page in the browser from a file to a decision. It calls, it never computes.

`server` opens the door on loopback, `page` and `steps` draw, `workspace` remembers, `tasks` are the
calls of the library, run in a process of their own (`worker`). What a person chose is a recipe
(`recipes`), which makes the objects of the library, and says itself in Python and as a command.
"""

from pufferkit.explore.server import serve

__all__ = ["serve"]
