"""Neighbouring batch sizes in blocks of steps: is a power of two, or another round size, faster an image?"""
