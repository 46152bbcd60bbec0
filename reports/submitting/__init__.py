"""Submissions: results of others' machines in one file, checked before they are sent and when they arrive."""
