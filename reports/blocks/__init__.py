"""Measure neighbouring batch sizes in blocks of steps: is a power of two, or another round size, faster per image?"""
