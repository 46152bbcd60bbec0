"""Differences that the gate finds: whether there is one, how large it is, and where it begins."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from each import for_each
from probed import DROPPING, OPTIMIZER, PLAIN, everywhere, gathered, moved, opened, through_json, truth

from adapters.numpy import layers
from adapters.numpy.adapter import Adapter
from adapters.numpy.layers import sequence
from adapters.numpy.passes import Forward, Pass
from runner.gate.rounding import compute_loss_growth
from runner.gate.tolerances import (
    DISTURBANCES,
    EVALUATION,
    GRADIENTS,
    HALF_UNIT,
    LATE,
    LATE_LOSSES,
    LOSSES,
    OUTPUTS,
    ROUNDINGS,
    UNITS,
    UPDATES,
    Truth,
    compare_losses,
    find_difference,
)
from workloads import schedules
from workloads.layers import BatchNorm, Relu
from workloads.records.evidence import EVALUATED_STEPS, PROBE_BATCH, PROBE_STEPS, Evidence
from workloads.records.result import Epoch
from workloads.spec import OptimizerSpec, Workload

OPTIMIZERS = [OptimizerSpec.named(name) for name in ("sgd", "momentum", "nesterov", "adam")]


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda optimizer: optimizer.name)
@pytest.mark.parametrize("workload", [PLAIN, DROPPING], ids=lambda workload: workload.name)
def test_float32_does_not_differ_from_float64_with_any_optimizer(workload: Workload, optimizer: OptimizerSpec) -> None:
    assert find_difference(truth(workload, optimizer).rounded, truth(workload, optimizer)) is None


class Mistaken(Adapter):
    """The referee, asked for something other than what the trial says."""

    def __init__(
        self,
        workload: Callable[[Workload], Workload] = lambda workload: workload,
        optimizer: Callable[[OptimizerSpec], OptimizerSpec] = lambda optimizer: optimizer,
    ) -> None:
        super().__init__()
        self.change_workload, self.change_optimizer = workload, optimizer

    def build(self, workload: Workload, optimizer: OptimizerSpec, weights: Any, seed: int) -> None:
        super().build(self.change_workload(workload), self.change_optimizer(optimizer), weights, seed)


class SummedLoss(Adapter):
    def differentiate(self, images: Any, labels: Any) -> Any:
        loss, run = super().differentiate(images, labels)
        run.gradients = {key: gradient * len(labels) for key, gradient in run.gradients.items()}
        return loss * len(labels), run


class BiasLeftAlone(Adapter):
    """A bias that is not trained. Biases start at zero, so in the first pass only its gradient shows it."""

    def differentiate(self, images: Any, labels: Any) -> Any:
        loss, run = super().differentiate(images, labels)
        run.gradients["dense1/bias"] *= 0
        return loss, run


class MomentumForgotten(Adapter):
    """An adapter that makes its optimizer anew for every step."""

    def train(self, order: Any, rates: Any = None, part: Any = None) -> Any:
        losses: list[float] = []
        for batch in order:
            losses.extend(super().train(batch[None]))
            self.optimizer.first = {key: np.zeros_like(array) for key, array in self.optimizer.first.items()}
        return np.array(losses, np.float32)


class PartialBatchSkipped(Adapter):
    """A batch that is not full is answered for, but not trained on."""

    def train(self, order: Any, rates: Any = None, part: Any = None) -> Any:
        kept = {key: array.copy() for key, array in self.state.items()}
        losses = super().train(order, rates)
        if order.shape[1] < PROBE_BATCH:
            self.state = kept
        return losses


class PartialBatchAsIfFull(Adapter):
    """Gradients divided by the nominal batch size, as MXNet's Trainer does when it is given that."""

    def differentiate(self, images: Any, labels: Any) -> Any:
        loss, run = super().differentiate(images, labels)
        run.gradients = {key: gradient * (len(labels) / PROBE_BATCH) for key, gradient in run.gradients.items()}
        return loss, run


class WeightsLeftOut(Adapter):
    """An adapter whose `weights` has no running statistics."""

    def weights(self) -> Any:
        trained = self.workload.parameter_shapes()
        return {key: array for key, array in super().weights().items() if key in trained}


class WeightDecay(Adapter):
    def _update(self, key: str, g: Any) -> Any:
        return super()._update(key, g + np.float32(5e-4) * self.state[key])


class DropoutInEvaluation(Adapter):
    def predict(self, images: Any) -> Any:
        return sequence(self.workload.layers, self.rescaled(images), self.new_pass(training=self.workload.draws))[0]


def swapped_momenta(workload: Workload) -> Workload:
    """BatchNorm's momentum taken for the weight of the new batch, as in PyTorch."""
    changed = (
        replace(layer, momentum=1 - layer.momentum) if isinstance(layer, BatchNorm) else layer
        for layer in workload.layers
    )
    return replace(workload, layers=tuple(changed))


MISTAKES = {
    "pixels divided by 256": (
        Mistaken(workload=lambda workload: replace(workload, scale=1 / 256)),
        "first layer that differs: conv1, its output by ",
    ),
    "summed loss": (SummedLoss(), "every layer's output agrees, the loss of step 1 differs by 3.0e+00 "),
    "bias not trained": (BiasLeftAlone(), "outputs and loss agree, the gradient of dense1/bias differs by "),
    "learning rate doubled": (
        Mistaken(optimizer=lambda optimizer: replace(optimizer, learning_rate=2 * optimizer.learning_rate)),
        "the first gradients agree, the change of dense2/bias over 1 step differs by ",
    ),
    "partial batch not trained on": (
        PartialBatchSkipped(),
        "the first gradients agree, the change of dense2/bias over 2 steps differs by ",
    ),
    "partial batch as if full": (
        PartialBatchAsIfFull(),
        "the first gradients agree, the change of dense2/bias over 2 steps differs by ",
    ),
    "weight decay": (WeightDecay(), "the first gradients agree, the change of dense2/kernel over 1 step differs by "),
    "momentum forgotten": (
        MomentumForgotten(),
        "the first gradients agree, the change of dense2/bias over 2 steps differs by ",
    ),
    "running statistics the other way round": (
        Mistaken(workload=swapped_momenta),
        "the first gradients agree, the change of norm/running_mean over 1 step differs by ",
    ),
    "dropout in evaluation": (
        DropoutInEvaluation(),
        "training agrees, the logits in evaluation mode, before any step, differ by ",
    ),
}


@for_each("mistake", MISTAKES)
def test_a_mistake_is_told_by_where_it_begins(mistake: str) -> None:
    adapter, told = MISTAKES[mistake]
    found = through_json(gathered(opened(adapter), DROPPING))
    said = find_difference(found, truth(DROPPING))
    assert said is not None and said.startswith(told)
    assert "(allowed " in said


def test_an_activation_that_leaks_is_the_first_layer_that_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = truth()

    def leaking(layer: Relu, x: Any, run: Pass) -> Forward:
        slope = np.where(x > 0, 1, 0.01).astype(x.dtype)
        return x * slope, lambda dy: dy * slope

    monkeypatch.setitem(layers.FORWARD, Relu, leaking)
    said = find_difference(through_json(gathered(opened())), expected)
    assert said is not None and said.startswith("first layer that differs: relu1, its output by ")


# (field, key, what is allowed, how the sentence begins)
KINDS: list[tuple[str, Any, float, str]] = [
    ("outputs", "conv2", OUTPUTS, "first layer that differs: conv2, its output by {}"),
    ("loss", None, LOSSES, "every layer's output agrees, the loss of step 1 differs by {}"),
    ("gradients", "conv2/kernel", GRADIENTS, "outputs and loss agree, the gradient of conv2/kernel differs by {}"),
    (
        "untrained_evaluation",
        None,
        OUTPUTS,
        "training agrees, the logits in evaluation mode, before any step, differ by {}",
    ),
    (
        "updates",
        "conv2/kernel",
        UPDATES,
        "the first gradients agree, the change of conv2/kernel over 1 step differs by {}",
    ),
    ("losses", 2, LOSSES, "the first gradients agree, the loss of step 3 differs by {}"),
    (
        "evaluation",
        None,
        EVALUATION,
        "2 steps of training agree, the logits in evaluation mode after them differ by {}",
    ),
]
KIND_IDS = [where for where, *_ in KINDS]
ALLOWANCES = [*KINDS, ("losses", 3, LATE_LOSSES, "the first gradients agree, the loss of step 4 differs by {}")]
ALLOWANCE_IDS = [*KIND_IDS, "late losses"]


@pytest.mark.parametrize(("where", "key", "allowed", "sentence"), ALLOWANCES, ids=ALLOWANCE_IDS)
def test_each_kind_of_difference_gives_its_own_sentence_with_its_figure(
    where: str, key: Any, allowed: float, sentence: str
) -> None:
    expected = truth().expected
    alone = Truth(expected, expected)
    assert find_difference(moved(expected, where, key, 0.9 * allowed), alone) is None
    assert find_difference(moved(expected, where, key, 0.25), alone) == sentence.format(
        f"2.5e-01 (allowed {allowed:.0e})"
    )
    assert find_difference(moved(expected, where, key, -1.1 * allowed), alone) == sentence.format(
        f"{1.1 * allowed:.1e} (allowed {allowed:.0e})"
    )


@pytest.mark.parametrize(("where", "key", "allowed", "sentence"), ALLOWANCES, ids=ALLOWANCE_IDS)
def test_the_tolerance_grows_with_the_referees_own_rounding_and_no_further(
    where: str, key: Any, allowed: float, sentence: str
) -> None:
    expected, rounding = truth().expected, 1e-2
    # the allowance for the loss of the first step is read off the losses of training: it is the same loss
    rounded = moved(expected, "losses", 0, rounding) if where == "loss" else moved(expected, where, key, rounding)
    widened = Truth(expected, rounded)
    assert find_difference(moved(expected, where, key, 0.98 * ROUNDINGS * rounding), widened) is None
    said = find_difference(moved(expected, where, key, 1.02 * ROUNDINGS * rounding), widened)
    assert said == sentence.format("2.04e-01 (allowed 2.0e-01)")


@pytest.mark.parametrize("widened", KIND_IDS)
def test_rounding_of_one_kind_widens_no_other(widened: str) -> None:
    expected = truth().expected
    key = dict((where, key) for where, key, *_ in KINDS)[widened]
    rounded = Truth(expected, moved(expected, widened, key, 1e-2))
    for where, other, allowed, _ in KINDS:
        said = find_difference(moved(expected, where, other, 2 * allowed), rounded)
        assert (said is None) == (where == widened and widened != "loss"), where


def test_rounding_of_one_kind_layer_or_step_is_allowed_to_that_alone_and_narrows_nothing() -> None:
    expected = truth().expected
    rounded = Truth(expected, moved(moved(expected, "outputs", "relu3", 1e-2), "losses", 3, 1e-2))
    assert find_difference(moved(expected, "outputs", "relu3", 0.04), rounded) is None
    assert "conv1, its output" in str(find_difference(moved(expected, "outputs", "conv1", 0.04), rounded))
    assert find_difference(moved(expected, "losses", 3, 0.04), rounded) is None
    assert "the loss of step 3" in str(find_difference(moved(expected, "losses", 2, 2 * LOSSES), rounded))
    rounded = Truth(expected, moved(expected, "losses", LATE - 1, 1e-6))
    assert find_difference(moved(expected, "losses", LATE - 1, 0.98 * LATE_LOSSES), rounded) is None


@pytest.mark.parametrize(("where", "key", "allowed", "sentence"), ALLOWANCES, ids=ALLOWANCE_IDS)
def test_what_differs_in_some_probes_and_not_in_all_is_no_difference(
    where: str, key: Any, allowed: float, sentence: str
) -> None:
    """A value lies on the other side of a kink: with other images it does not."""
    expected = truth().expected
    alone = Truth(expected, expected)
    everywhere_wrong = moved(expected, where, key, 0.25)
    for kept in range(len(expected.probes)):
        probes = [*everywhere_wrong.probes[:kept], expected.probes[kept], *everywhere_wrong.probes[kept + 1 :]]
        assert (
            find_difference(replace(probes[0], again=[replace(probe, again=[]) for probe in probes[1:]]), alone) is None
        )
    assert find_difference(everywhere_wrong, alone) is not None


def test_of_several_probes_the_smallest_difference_is_told_and_no_number_in_one_is_infinite() -> None:
    expected = truth().expected
    wrong = moved(expected, "outputs", "conv2", 0.25)
    milder = moved(expected, "outputs", "conv2", 0.12)
    mixed = replace(wrong, again=[wrong.again[0], milder.again[1]])
    assert "conv2, its output by 1.2e-01" in str(find_difference(mixed, Truth(expected, expected)))
    lost: Any = [None] * 5
    broken = replace(expected.again[1], outputs={**expected.again[1].outputs, "conv2": lost})
    assert "conv2, its output by inf" in str(
        find_difference(replace(expected, again=[expected.again[0], broken]), Truth(expected, expected))
    )


def test_rounding_is_the_middle_one_of_the_probes() -> None:
    """The referee's own rounding also grows where a value lies on a kink, but in one probe only."""
    expected = truth().expected
    kinked = moved(expected, "gradients", "conv2/kernel", 0.05)
    once = Truth(expected, replace(expected, gradients=kinked.gradients))
    twice = Truth(expected, replace(kinked, again=[kinked.again[0], expected.again[1]]))
    found = moved(expected, "gradients", "conv2/kernel", 0.25)
    assert "the gradient of conv2/kernel differs" in str(find_difference(found, once))
    assert find_difference(found, twice) is None


def test_evidence_that_was_stored_before_updates_and_further_probes_is_judged_by_what_it_has() -> None:
    expected = truth().expected
    stored = {key: value for key, value in expected.to_json().items() if key not in ("updates", "sizes", "again")}
    stored["outputs"] = {key: value[:2] for key, value in stored["outputs"].items()}
    stored["gradients"] = {key: value[:2] for key, value in stored["gradients"].items()}
    stored["evaluation"], stored["untrained_evaluation"] = expected.evaluation[:2], expected.untrained_evaluation[:2]
    early = Evidence.from_json(stored)
    assert early.probes == [early]
    for against in (truth(), Truth(early, early)):
        assert find_difference(early, against) is None
        assert "conv2, its output by" in str(find_difference(moved(early, "outputs", "conv2", 0.25), against))
    assert find_difference(expected, Truth(early, early)) is None


def test_an_update_is_known_no_better_than_float32_holds_the_weights() -> None:
    expected = truth().expected
    size, norm = expected.sizes["norm/gamma"], expected.updates["1"]["norm/gamma"][0]
    units = UNITS * HALF_UNIT * size / norm
    heavier = everywhere(expected, lambda e: replace(e, sizes={**e.sizes, "norm/gamma": 1e6 * size}))
    found = moved(expected, "updates", "norm/gamma", 0.25 * 1e6 * units)
    assert 0.25 * 1e6 * units > UPDATES
    assert "the change of norm/gamma over" in str(find_difference(found, Truth(expected, expected)))
    assert find_difference(found, Truth(heavier, heavier)) is None


def test_updates_are_compared_but_for_a_gradient_that_is_only_rounding() -> None:
    """Adam makes a whole step of it."""
    expected = truth().expected
    assert find_difference(moved(expected, "updates", "conv1/bias", 1e6), truth()) is None
    assert "the change of conv2/bias over" in str(
        find_difference(moved(expected, "updates", "conv2/bias", 1e6), truth())
    )
    found = moved(truth().expected, "updates", "norm/running_variance", 2 * UPDATES)
    assert "the change of norm/running_variance over 1 step differs" in str(find_difference(found, truth()))


def test_the_layer_named_is_the_first_computed_and_the_gradient_the_one_nearest_to_the_loss() -> None:
    evidence = moved(moved(truth().expected, "outputs", "conv2", 0.5), "outputs", "relu1", 0.001)
    assert str(find_difference(evidence, truth())).startswith("first layer that differs: relu1, its output by 1.0e-03")
    evidence = moved(moved(truth().expected, "gradients", "conv1/kernel", 0.5), "gradients", "dense1/kernel", 0.001)
    assert "the gradient of dense1/kernel differs" in str(find_difference(evidence, truth()))
    expected = truth().expected
    assert find_difference(replace(expected, gradients=dict(reversed(expected.gradients.items()))), truth()) is None


def test_what_is_computed_earlier_is_told_first() -> None:
    """The order: from the input to the loss, back to the input, then the steps and the evaluation after them."""
    expected = truth().expected
    evidence, left = expected, list(KINDS)
    for where, key, *_ in KINDS:
        evidence = moved(evidence, where, key, 0.25)
    while left:
        assert str(find_difference(evidence, truth())).startswith(left[0][3].split("{}")[0])
        evidence = replace(evidence, **{left[0][0]: getattr(expected, left[0][0])})
        del left[0]
    assert find_difference(evidence, truth()) is None


def test_weights_that_leave_one_out_are_told_though_the_others_agree() -> None:
    """The probe of the end needs all of them: without this it would check nothing."""
    found = through_json(gathered(opened(WeightsLeftOut())))
    said = f"weights are named differently: norm/running_mean is missing (2 of {len(PLAIN.weight_shapes())})"
    assert find_difference(found, truth()) == said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda e: replace(e, outputs={key: value for key, value in e.outputs.items() if key != "pool"}),
            "outputs are named differently: pool is missing (1 of {layers})",
        ),
        (
            lambda e: replace(e, outputs={**e.outputs, "extra": [1.0, 1.0]}),
            "outputs are named differently: the network has no extra (1 of {more})",
        ),
        (
            lambda e: replace(e, outputs=dict(reversed(e.outputs.items()))),
            "outputs are in a different order: {last} is where {first} belongs",
        ),
        (
            lambda e: replace(e, gradients={key: value for key, value in e.gradients.items() if key != "conv1/bias"}),
            "gradients are named differently: conv1/bias is missing (1 of {parameters})",
        ),
        (
            lambda e: replace(e, gradients={**e.gradients, "extra/bias": [1.0, 1.0]}),
            "gradients are named differently: the network has no extra/bias (1 of {more_parameters})",
        ),
    ],
    ids=["layer missing", "layer more", "another order", "parameter missing", "parameter more"],
)
def test_other_names_or_another_order_are_told_as_that_and_nothing_else_is_asked(
    change: Callable[[Evidence], Evidence], said: str
) -> None:
    expected = truth().expected
    layers, parameters = list(expected.outputs), len(expected.gradients)
    words = {"layers": len(layers), "more": len(layers) + 1, "first": layers[0], "last": layers[-1]}
    words |= {"parameters": parameters, "more_parameters": parameters + 1}
    assert find_difference(change(expected), truth()) == said.format(**words)


def test_a_gradient_that_is_only_rounding_is_held_against_all_gradients() -> None:
    """A bias in front of BatchNorm has such a gradient: in float64 1e-15, in float32 1e-6."""
    expected = truth().expected
    assert expected.gradients["conv1/bias"][0] < 1e-12 < 1e-8 < truth().rounded.gradients["conv1/bias"][0]
    size = expected.gradient_norm

    def with_bias(projection: float) -> Evidence:
        return everywhere(expected, lambda e: replace(e, gradients={**e.gradients, "conv1/bias": (0.0, projection)}))

    at_most, above = with_bias(0.8e-5 * size), with_bias(1e-4 * size)
    alone = Truth(expected, expected)
    assert find_difference(at_most, alone) is None
    assert "the gradient of conv1/bias differs by " in str(find_difference(above, alone))


def test_a_changed_norm_is_seen_where_the_projection_is_the_same() -> None:
    expected = truth().expected

    def longer(probe: Evidence) -> Evidence:
        norm, *projections = probe.outputs["dense2"]
        return replace(probe, outputs={**probe.outputs, "dense2": (1.01 * norm, *projections)})

    evidence = everywhere(expected, longer)
    assert "dense2, its output by 1.0e-02" in str(find_difference(evidence, truth()))


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("outputs", {**truth().expected.outputs, "conv2": [None, None]}),
        ("loss", None),
        ("gradients", {**truth().expected.gradients, "conv2/kernel": [None, 1.0]}),
        ("untrained_evaluation", [None, None]),
        ("losses", [*truth().expected.losses[:2], None, None, None]),
        ("evaluation", [1.0, None]),
    ],
)
def test_no_number_differs_from_a_number_on_either_side_and_agrees_with_itself(where: str, value: Any) -> None:
    sentence = next(sentence for kind, _, _, sentence in KINDS if kind == where)
    expected = truth().expected
    broken = replace(expected, **{where: value})
    told = find_difference(broken, truth())
    assert told is not None and told.startswith(sentence.format("inf (allowed "))
    assert find_difference(broken, Truth(broken, broken)) is None
    if where != "losses":  # there the expected run has diverged
        assert str(find_difference(expected, Truth(broken, broken))).startswith(sentence.format("inf"))


def test_gradients_that_are_no_numbers_anywhere_or_all_zero_stop_nothing() -> None:
    expected = truth().expected

    def without(norm: Any) -> Evidence:
        return everywhere(
            expected, lambda e: replace(e, gradient_norm=norm, gradients={key: (norm,) * 5 for key in e.gradients})
        )

    for one in (without(None), without(0.0)):
        assert find_difference(one, Truth(one, one)) is None
        assert "the gradient of dense2/bias differs" in str(find_difference(expected, Truth(one, one)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_two_that_overflow_alike_agree_and_one_that_does_not_differs() -> None:
    wild = truth(PLAIN, OptimizerSpec("sgd", 1e30))
    assert find_difference(wild.rounded, wild) is None
    tame = through_json(gathered(opened()))
    assert find_difference(tame, Truth(wild.rounded, wild.rounded)) is not None


LOSS = 2.0


@for_each(
    "found, expected, told",
    [
        ([LOSS, 1.9], [LOSS, 1.9], None),
        ([], [LOSS], None),
        ([LOSS, 1.9 * 1.00009], [LOSS, 1.9], None),
        ([LOSS, 1.9 * 1.00011], [LOSS, 1.9], "the loss of step 2 differs by 1.1e-04 (allowed 1e-04)"),
        ([LOSS, 1.9, 1.9, 1.9, 1.8], [LOSS, 1.9, 1.9, 1.9, 2.0], "the loss of step 5 differs by 1.0e-01"),
        ([LOSS, 1.9, 1.9 * 1.00011], [LOSS, 1.9, 1.9], "the loss of step 3 differs by 1.1e-04 (allowed 1e-04)"),
        ([LOSS, 1.9, 1.9, 1.9 * 1.0049], [LOSS, 1.9, 1.9, 1.9], None),
        (
            [LOSS, 1.9, 1.9, 1.9 * 1.0051],
            [LOSS, 1.9, 1.9, 1.9],
            "the loss of step 4 differs by 5.1e-03 (allowed 5e-03)",
        ),
        ([2.2, 1.8], [LOSS, 1.9], "the loss of step 1 differs by 1.0e-01"),
        ([0.0], [5e-8], None),
        ([0.0], [1e-6], "the loss of step 1 differs by 1.0e-03"),
        ([None], [None], None),
        ([None], [LOSS], "the loss of step 1 differs by inf"),
        ([LOSS], [None], "the loss of step 1 differs by inf"),
    ],
)
def test_losses_are_compared_relatively_step_by_step(found: list[Any], expected: list[Any], told: str | None) -> None:
    said = compare_losses(found, expected)
    assert said is None if told is None else str(said).startswith(told)


@for_each(
    "found, expected, told",
    [
        ([LOSS, 1.9, 5.0], [LOSS, 1.9, 4.1], None),
        ([LOSS, 1.9, 4.0], [LOSS, 1.9, 3.9], "step 3"),
        ([LOSS, 1.9, 4.1, 1.0], [LOSS, 1.9, 4.1, 2.0], None),
        ([LOSS, 1.9, 9.0], [LOSS, 1.9, None], None),
        ([LOSS, 1.9, None, 1.0], [LOSS, 1.9, None, 2.0], None),
        ([LOSS, 90.0], [LOSS, 100.0], "step 2"),
        ([LOSS, 90.0], [LOSS, None], "step 2"),
        ([LOSS, 100.0, 1.0], [LOSS, 100.0, 2.0], None),
        ([None, None, 1.0], [None, None, 2.0], None),
        ([LOSS, 1.9, 5.0], [LOSS, 1.9, 1.8], "step 3"),
    ],
)
def test_a_run_that_diverges_is_compared_no_further_than_its_second_step(
    found: list[Any], expected: list[Any], told: str | None
) -> None:
    said = compare_losses(found, expected)
    assert said is None if told is None else told in str(said)


def test_losses_beyond_the_steps_whose_rounding_is_known_are_not_compared() -> None:
    losses = [LOSS] * (PROBE_STEPS + 2)
    for length in (EVALUATED_STEPS, PROBE_STEPS):
        late = [*losses[:length], *[1.0] * (len(losses) - length)]
        assert compare_losses(late, losses, [0.0] * length) is None
        assert f"step {length} " in str(compare_losses([*losses[: length - 1], 1.0], losses, [0.0] * length))
    assert compare_losses([*losses[:PROBE_STEPS], 1.0], losses) is None


def test_a_large_network_that_only_its_frameworks_computed_is_compared_as_far_as_its_disturbed_probes_go() -> None:
    """Seen with resnet-18 at 224 x 224: a loss moved by 1e-3 at step 2, as disturbed weights move it, and so on."""
    losses, moved = [LOSS] * PROBE_STEPS, [(1e-3, 1e-3, 1e-3)] * EVALUATED_STEPS
    near = [LOSS, LOSS * 1.001, *[LOSS * 1.02] * (PROBE_STEPS - EVALUATED_STEPS)]
    assert compare_losses(near, losses, disturbed=moved) is None
    assert "step 3 " in str(compare_losses(near, losses, disturbed=[(1e-3, 1e-3, 1e-3)] * PROBE_STEPS))
    assert "step 2 " in str(compare_losses([LOSS, LOSS * 1.01, *near[2:]], losses, disturbed=moved))


def test_all_ten_first_losses_are_compared_as_far_as_rounding_cannot_have_grown_to_three_percent() -> None:
    gentle, rough = (OptimizerSpec("momentum", rate) for rate in (0.01, 0.1024))
    losses = [LOSS] * 10

    def said(rule: OptimizerSpec, step: int, by: float) -> str | None:
        found = [*losses[: step - 1], LOSS * (1 + by), *losses[step:]]
        return compare_losses(found, losses, [0.0] * PROBE_STEPS, growth=compute_loss_growth([], rule, PROBE_STEPS, 10))

    for step in range(PROBE_STEPS + 1, 11):
        assert f"step {step} " in str(said(gentle, step, 0.03)) and said(gentle, step, 0.005) is None
        assert said(rough, step, 0.5) is None  # seen between correct frameworks: 9e-3


def test_rounding_grows_with_each_updates_own_rate() -> None:
    rule = OptimizerSpec("adam", 0.001, schedule="cosine")
    (epoch,) = [Epoch(1.0, 10, 40, 1.0, 0.1, 1.0, 0.5)]
    rates = schedules.compute_rates(rule, 10)
    grown = compute_loss_growth([epoch], rule, PROBE_STEPS, 10)
    powers = np.cumsum(np.maximum(1 / 60, rates[PROBE_STEPS - 1 : 9].astype(np.float64) / 0.005))
    assert grown == pytest.approx(10**powers, rel=1e-2) and len(grown) == 10 - PROBE_STEPS


def test_rounding_is_relative_and_read_step_by_step() -> None:
    expected = truth(PLAIN, OPTIMIZER).expected
    rounded = moved(moved(expected, "losses", 1, 1e-3), "losses", 4, -2e-3)
    assert Truth(expected, rounded).loss_rounding == pytest.approx([0, 1e-3, 0, 0, 2e-3])
    nothing: Any = None
    lost = everywhere(rounded, lambda probe: replace(probe, losses=[nothing, *probe.losses[1:]]))
    assert Truth(expected, lost).loss_rounding[0] == math.inf


def amplified(where: str, key: Any, *parts: float) -> Truth:
    """The truth without any rounding, and the effect of disturbances on one quantity."""
    expected = truth().expected
    if where == "loss":  # read off the losses of training: it is the same loss
        where, key = "losses", 0
    return Truth(expected, expected, tuple((expected, moved(expected, where, key, part)) for part in parts))


@pytest.mark.parametrize(("where", "key", "allowed", "sentence"), ALLOWANCES, ids=ALLOWANCE_IDS)
def test_what_a_disturbance_of_the_weights_moves_may_differ_by_three_times_as_much(
    where: str, key: Any, allowed: float, sentence: str
) -> None:
    seen = amplified(where, key, 10 * allowed)
    assert find_difference(moved(truth().expected, where, key, 0.8 * DISTURBANCES * 10 * allowed), seen) is None
    assert find_difference(moved(truth().expected, where, key, 1.3 * DISTURBANCES * 10 * allowed), seen) is not None
    calm = amplified(where, key, 0.0)
    assert find_difference(moved(truth().expected, where, key, 2.5 * allowed), calm) is not None, "nothing is lost"


def test_the_middle_disturbance_decides_and_of_two_the_lower() -> None:
    found = moved(truth().expected, "gradients", "conv2/kernel", 0.25)
    for parts, suspect in [((0.1, 0.1, 0.0), False), ((0.1, 0.0, 0.0), True), ((0.1, 0.0), True), ((0.1, 0.1), False)]:
        assert (find_difference(found, amplified("gradients", "conv2/kernel", *parts)) is not None) == suspect


def test_disturbed_evidence_without_updates_widens_what_it_has_and_that_of_fewer_probes_nothing() -> None:
    expected = truth().expected
    off = moved(expected, "gradients", "conv2/kernel", 0.1)
    early = everywhere(off, lambda probe: replace(probe, updates={}))
    seen = Truth(expected, expected, ((expected, early),))
    found = moved(expected, "gradients", "conv2/kernel", 0.25)
    assert find_difference(found, seen) is None
    assert find_difference(moved(expected, "updates", "conv2/kernel", 0.25), seen) is not None
    assert find_difference(found, Truth(expected, expected, ((expected, replace(off, again=[])),))) is not None
