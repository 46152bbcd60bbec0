"""A Keras model that a network was imported from: the verbs of adapters/keras_shared, around TensorFlow's adapter."""

from adapters.keras_shared.source import make_source as make_source
