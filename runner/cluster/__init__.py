"""Trials on other machines: what is handed out, what runs there, how it comes back, and the engines that carry it."""
