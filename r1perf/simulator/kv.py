"""Keep the engine's KV cache: blocks that streams hold, and blocks of past prompts that wait to be hit or evicted."""

from collections import OrderedDict
from collections.abc import Sequence


class BlockPool:
    """Count blocks; a block is private to a stream, or shared under the hash of all the prompt up to its end.

    A shared block that nobody holds stays (`idle`) until room is needed; the least recently used goes first. Always:
    used <= capacity, and used + idle <= capacity.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._held: dict[int, int] = {}  # hash -> streams that hold it
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._private = 0

    @property
    def used(self) -> int:
        """Count the blocks that streams hold."""
        return len(self._held) + self._private

    @property
    def idle(self) -> int:
        """Count the blocks that nobody holds and a prompt may hit."""
        return len(self._idle)

    def hits(self, hashes: Sequence[int]) -> int:
        """Count the leading blocks of a prompt that are here."""
        for count, key in enumerate(hashes):
            if key not in self._held and key not in self._idle:
                return count
        return len(hashes)

    def take(self, shared: Sequence[int], private: int) -> bool:
        """Hold `shared` blocks, all of which are here, and `private` new ones; change nothing where they don't fit."""
        woken = sum(key not in self._held for key in shared)
        if self.used + woken + private > self.capacity:
            return False
        for key in shared:
            self._held[key] = self._held.get(key, 0) + 1
            self._idle.pop(key, None)
        self._private += private
        while self.used + len(self._idle) > self.capacity:
            self._idle.popitem(last=False)
        return True

    def share(self, keys: Sequence[int]) -> list[int]:
        """Offer private blocks under their hashes; return those that became shared (the others exist already)."""
        fresh = [key for key in keys if key not in self._held]
        for key in fresh:
            self._held[key] = 1
            # The same prompt was evicted from use and computed again meanwhile: the idle copy is the lesser.
            self._idle.pop(key, None)
        self._private -= len(fresh)
        return fresh

    def release(self, shared: Sequence[int], private: int) -> None:
        """Let go of blocks. Later blocks of a prompt go idle first, so that they are evicted before earlier ones."""
        self._private -= private
        for key in reversed(shared):
            left = self._held[key] - 1
            if left:
                self._held[key] = left
            else:
                del self._held[key]
                self._idle[key] = None
