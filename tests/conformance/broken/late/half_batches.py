"""PyTorch: from step 21 on, the first half of each batch."""

from adapters.pytorch import adapter

FRAMEWORK, CAUGHT_BY = "pytorch", {"losses at its end = the referee's", "updates at its end = the referee's"}


class Adapter(adapter.Adapter):
    def build(self, *arguments, **named):
        super().build(*arguments, **named)
        self.done = 0

    def train(self, order):
        losses = []
        for batch in order:
            self.done += 1
            half = len(batch) if self.done <= 20 else -(-len(batch) // 2)
            losses += super().train(batch[None, :half])
        return losses
