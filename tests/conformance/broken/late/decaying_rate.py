"""Keras: from step 11 on, a learning rate that decays by 1 % a step."""

from adapters.tensorflow import adapter

FRAMEWORK, CAUGHT_BY = "tensorflow", {"updates at its end = the referee's"}


class Adapter(adapter.Adapter):
    def build(self, workload, optimizer, *arguments, **named):
        super().build(workload, optimizer, *arguments, **named)
        self.done, self.rate = 0, optimizer.learning_rate

    def train(self, order):
        losses = []
        for batch in order:
            self.done += 1
            self.optimizer.learning_rate.assign(self.rate * 0.99 ** max(0, self.done - 10))
            losses += super().train(batch[None])
        return losses
