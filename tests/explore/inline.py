"""A worker without a process, for tests of the page."""

from pufferkit.explore.worker import Refused, Worker, answered


class Inline(Worker):
    """Tasks are done where they are asked for."""

    def start(self):
        """Nothing to start."""

    async def run(self, task, *given, tell=None, lane=""):
        kind, content = answered(task, given, tell)
        if kind == "refused":
            raise Refused(content)
        return content
