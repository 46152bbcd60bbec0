"""PyTorch: after each evaluation, momentum begins at zero again."""

from adapters.pytorch import adapter

FRAMEWORK, CAUGHT_BY = "pytorch", {"epochs are as the others'"}


class Adapter(adapter.Adapter):
    def build(self, *arguments, **named):
        super().build(*arguments, **named)
        self.done = 0

    def train(self, order):
        self.done += len(order)
        return super().train(order)

    def predict(self, images):
        if self.done > 5:
            self.optimizer.state.clear()
        return super().predict(images)
