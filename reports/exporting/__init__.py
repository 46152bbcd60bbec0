"""Bring stored trials into other people's tools."""
