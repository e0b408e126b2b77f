"""One module for each step of the page; each has ``draw(workspace, go)``."""
