"""The lab's lessons in a terminal: a page, a shell with a cluster, and checks of the tasks."""
