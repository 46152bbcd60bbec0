"""The same training as a Keras user writes it, by train_on_batch: no line of Batchwise, only its input files."""

import json
import sys

import keras
import numpy as np

request = json.loads(sys.argv[1])
train_images, train_labels, test_images, test_labels, order = (
    np.load(request[name]) for name in ("train_images", "train_labels", "test_images", "test_labels", "order")
)
initial = np.load(request["weights"])

model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        keras.layers.Rescaling(1 / 255),
        keras.layers.Conv2D(32, 3, activation="relu", name="conv1"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(64, 3, activation="relu", name="conv2"),
        keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(64, 3, activation="relu", name="conv3"),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu", name="dense1"),
        keras.layers.Dense(10, name="dense2"),
    ]
)
for name in ("conv1", "conv2", "conv3", "dense1", "dense2"):
    model.get_layer(name).set_weights([initial[f"{name}/kernel"], initial[f"{name}/bias"]])
model.compile(
    optimizer=keras.optimizers.SGD(0.01, momentum=0.9),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)
losses: list[float] = []
for epoch in range(request["epochs"]):
    model.reset_metrics()
    for batch in np.split(order[epoch], range(request["batch_size"], len(order[epoch]), request["batch_size"])):
        if len(losses) < 10:
            model.reset_metrics()  # Keras returns the running mean; a reset makes it this batch's loss
        losses.append(float(model.train_on_batch(train_images[batch], train_labels[batch])))
accuracy = (model.predict(test_images, verbose=0).argmax(1) == test_labels).mean()
print(json.dumps({"first_losses": losses[:10], "test_accuracy": float(accuracy)}))
