"""A small network of planted_imports.py's parts that Keras has, as a user writes it there."""

from keras import Model, layers


def make_model(classes):
    images = layers.Input((17, 15, 3))
    x = layers.ZeroPadding2D(1)(images)
    x = layers.Conv2D(8, 3, 2, use_bias=False, name="stem")(x)
    x = layers.BatchNormalization(momentum=0.9, epsilon=1e-5, name="stem_norm")(x)
    x = layers.ReLU(6.0, name="stem_relu")(x)
    y = layers.DepthwiseConv2D(3, padding="same", name="mix")(x)
    y = layers.LayerNormalization(epsilon=1e-6, name="norm")(y)
    y = layers.Conv2D(8, 1, activation="gelu", name="up")(y)
    y = layers.Dropout(0.1, noise_shape=(None, 1, 1, 1), name="depth")(y)
    x = layers.Add(name="add")([x, y])
    x = layers.GlobalAveragePooling2D(name="mean")(x)
    x = layers.Dropout(0.5, name="drop")(x)
    return Model(images, layers.Dense(classes, activation="softmax", name="head")(x))
