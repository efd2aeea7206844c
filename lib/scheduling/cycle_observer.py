"""Who wants to know how far a pod's cycle has come, and how long each part of it took.

Deciding has no clock: whoever listens has one.
"""

SUCCESS, ERROR = "Success", "Error"
"""How an extension point ended, beside the names of Code."""


class CycleObserver:
    """Is told of the extension points that a cycle comes to. This one makes nothing of it."""

    def began(self) -> float:
        """A cycle begins; when that is, in seconds."""
        return 0.0

    def entering(self, point: str) -> None:
        """Plugins with this extension point, such as "Filter", are asked next; those asked last agreed."""

    def left(self, how: str = SUCCESS) -> None:
        """They have been asked; the name of their answer's Code, or ERROR when one failed."""

    def passed_on(self) -> None:
        """They leave it to others, who know how long that takes."""

    def ended(self) -> float:
        """The cycle has come to its end; when that is, in seconds."""
        return 0.0
