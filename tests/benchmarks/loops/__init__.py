"""Loops as a framework's user writes them: osu-cnn, SGD with momentum, uint8 images in memory, gathered by numpy.

Each is a function (images, labels, weights, threads, settings) -> train, and `train` (steps, batch) -> losses. They
contain no line of Batchwise. "by-hand" is the guide's loop, and `settings` are those that make it faster. "guide-feed"
is the guide's with its own data pipeline in place of numpy's gathering. "fit" and the like are the trainers that people
use. The last two have no settings.
"""
