"""The programs that run inside a framework's environment, the same for every framework."""
