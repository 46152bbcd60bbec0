"""The search for the largest batch size that fits, with simulated allocators: the real code, no processes."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from each import for_each
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from runner.batch_size.largest import MOST, Bound, find_largest, list_sizes_around
from runner.batch_size.memory_limit import COUNTED
from workloads.records.batch_answers import Fit, Largest, Limit, Tried

MIB = 2**20
WHY = "ValueError: Expected more than 1 value per channel"
SAME_EVERYWHERE = settings(derandomize=True, database=None, deadline=None)
# Bytes per image of osu-cnn's tensors: images, labels, activations of its layers.
OSU_CNN = (3136, 4, 86528, 86528, 21632, 30976, 30976, 6400, 2304, 40)


@dataclass
class Machine:
    """An allocator with a limit; `use` is bytes by batch size. It counts its trials."""

    use: Callable[[int], float]
    limit_bytes: int
    counting_error: float = 0.0  # share by which the counting process overestimates the bytes
    ends: Callable[[int, int], Fit | None] = lambda size, number: None  # end of the trial of this number, if other
    trials: Counter[int] = field(default_factory=Counter)

    def fits(self, size: int) -> bool:
        return self.use(size) <= self.limit_bytes

    def attempt(self, size: int) -> Tried:
        self.trials[size] += 1
        used = self.use(size)
        fit = self.ends(size, self.trials.total()) or (Fit.FITS if used <= self.limit_bytes else Fit.TOO_LARGE)
        folder = f"steps/{size}-{self.trials[size]}"
        return Tried(
            size, fit, folder, int(used) if fit is Fit.FITS else None, reason=WHY if fit is Fit.UNKNOWN else None
        )

    def answer(self, lifted: Callable[[int], Tried] | None = None) -> Largest:
        counted = {size: self.use(size) * (1 + self.counting_error) for size in COUNTED if self.fits(size)}
        ends_at = next((size for size in COUNTED if size not in counted), None)
        bound = Bound(Limit.ASKED, self.limit_bytes)
        return find_largest(self.attempt, bound, counted, ends_at, lifted)


def osu_cnn(fixed_bytes: float, block: int, times: float = 1.0, kink: int | None = None) -> Callable[[int], float]:
    """Make an allocator's use: every tensor in separate blocks; from batch size `kink` on, a workspace of 30 MB
    less."""

    def use(size: int) -> float:
        tensors = sum(math.ceil(each * times * size / block) * block for each in OSU_CNN)
        return fixed_bytes + tensors + (30e6 if kink is not None and size < kink else 0)

    return use


def limit_for(use: Callable[[int], float], size: int, share: float) -> int:
    """Return a limit where this size, or one of the same use above it, is the largest that fits."""
    return int(use(size) + share * (use(size + 1) - use(size)))


def proven(answer: Largest, machine: Machine) -> int:
    """Return the answer after checking all its claims against the simulated truth."""
    size = answer.batch_size
    assert size is not None and answer.reason is None, answer.reason
    assert not size or machine.fits(size)
    assert not machine.fits(size + 1)
    assert len(set(answer.fits)) == (2 if size else 0) and len(set(answer.fails)) >= 2
    assert machine.trials.total() == len(answer.tried)
    return size


def bar(size: int) -> float:
    """Return the largest number of trials allowed, with both proofs."""
    return max(4, 2 * math.log2(max(size, 1)) + 2)


@pytest.mark.parametrize("error", [0.0, 0.03, -0.03])
def test_a_search_is_right_and_takes_no_more_trials_than_the_bar(error: float) -> None:
    drawn = random.Random(15)
    sizes = [*range(1, 130), *(round(math.exp(drawn.uniform(0, math.log(20_000)))) for _ in range(600))]
    counts, typical = [], []
    for number, size in enumerate(sizes):
        use = osu_cnn(drawn.choice((0, 1e6, 3e8, 2e9)), drawn.choice((1, 512, 2 * MIB)), drawn.choice((0.1, 1, 10)))
        machine = Machine(use, limit_for(use, size, drawn.random()), error)
        found = proven(machine.answer(), machine)
        assert found >= size and machine.trials.total() <= bar(found), (found, machine.trials.total())
        counts.append(machine.trials.total())
        typical += counts[-1:] if number >= 129 else []
    typical.sort()
    median, most = typical[len(typical) // 2], typical[int(0.95 * len(typical))]
    print(f"counting process off by {error:+.0%}: {median} trials in the median, 95 % {most}, at most {max(counts)}")
    assert median <= 9 and most <= 15


ALLOCATORS = st.builds(
    osu_cnn,
    st.floats(0, 4e9),
    st.sampled_from((1, 512, 2 * MIB, 20 * MIB)),
    st.floats(0.01, 30),
    st.none() | st.integers(2, 20_000),
)


@settings(SAME_EVERYWHERE, max_examples=150)
@given(ALLOCATORS, st.integers(1, 20_000), st.floats(0, 0.999), st.floats(-0.36, 0.36))
def test_every_allocator_has_an_exact_answer(
    use: Callable[[int], float], size: int, share: float, error: float
) -> None:
    """This also holds where memory falls at some size: then n fits and n + 1 does not, which several n may satisfy."""
    assume(use(size) < use(size + 1))
    machine = Machine(use, limit_for(use, size, share), error)
    found = machine.answer()
    assume(found.batch_size != MOST)
    proven(found, machine)


@settings(SAME_EVERYWHERE, max_examples=60)
@given(ALLOCATORS, st.integers(1, 20_000), st.sets(st.integers(1, 40)))
def test_foreign_crashes_do_not_change_the_answer(use: Callable[[int], float], size: int, crashes: set[int]) -> None:
    """Crashes hit single trials, given by number: never two in a row."""
    assume(use(size) < use(size + 1) and not any(number + 1 in crashes for number in crashes))
    undisturbed = Machine(use, limit_for(use, size, 0.5))
    machine = replace(undisturbed, ends=lambda _, number: Fit.UNKNOWN if number in crashes else None, trials=Counter())
    assert proven(machine.answer(), machine) == undisturbed.answer().batch_size
    assert machine.trials.total() == undisturbed.trials.total() + len(
        [c for c in crashes if c < machine.trials.total()]
    )


@settings(SAME_EVERYWHERE, max_examples=60)
@given(ALLOCATORS, st.integers(2, 20_000), st.integers(1, 20_000))
def test_a_crash_or_a_hang_at_every_trial_from_some_size_on_does_not_count_as_too_large(
    use: Callable[[int], float], size: int, crashing: int
) -> None:
    """Memory is not at fault, and a trial with more of it shows that: it ends the same way."""
    assume(use(size) < use(size + 1))
    machine = Machine(use, limit_for(use, size, 0.5), ends=lambda s, _: Fit.UNKNOWN if s >= crashing else None)
    answer = machine.answer(lifted=lambda s: Tried(s, Fit.UNKNOWN if s >= crashing else Fit.FITS, "lifted", None))
    if answer.batch_size is None:
        asked = Counter(each.batch_size for each in answer.tried if each.fit is Fit.UNKNOWN)
        named = [size for size in asked if (answer.reason or "").startswith(f"batch size {size}: ")]
        assert min(asked) >= crashing and len(named) == 1
        assert set(asked.values()) == {3}, "tried once more, and with more memory"
        assert not any(f"{size} does not" in (answer.reason or "") for size in asked)
    else:
        assert answer.batch_size + 1 < crashing and not machine.fits(answer.batch_size + 1)


GROWING = st.builds(osu_cnn, st.floats(0, 4e9), st.sampled_from((1, 512, 2 * MIB)), st.floats(0.01, 30))


@settings(SAME_EVERYWHERE, max_examples=60)
@given(GROWING, st.integers(3, 20_000), st.sampled_from(((1,), (1, 2), (1, 2, 3), (2,))), st.booleans())
def test_what_fails_otherwise_at_small_sizes_is_no_upper_limit(
    use: Callable[[int], float], size: int, failing: tuple[int, ...], counts: bool
) -> None:
    """A batch norm of one value per channel, in PyTorch: no trial of a batch of one ends well, 2 to `size` do."""
    assume(use(size) < use(size + 1) and size > max(failing))
    machine = Machine(use, limit_for(use, size, 0.5), ends=lambda s, _: Fit.UNKNOWN if s in failing else None)
    bound, counted = Bound(Limit.ASKED, machine.limit_bytes), {16: use(16)} if counts and machine.fits(16) else {}
    answer = find_largest(machine.attempt, bound, counted, lifted=machine.attempt)
    assume(answer.batch_size != MOST)
    assert proven(answer, machine) >= size
    assert set(answer.failed_otherwise) <= set(failing)
    assert all(reason == WHY for reason in answer.failed_otherwise.values())


def test_an_answer_has_the_counts_around_it_and_what_fails_otherwise_is_passed_and_named() -> None:
    machine = Machine(lambda size: 1000 + size, 1000 + 400, ends=lambda size, _: Fit.UNKNOWN if size == 1 else None)
    answer = find_largest(machine.attempt, Bound(Limit.ASKED, 1400), {}, ends_at=1)
    assert (answer.batch_size, answer.failed_otherwise) == (400, {1: WHY})
    machine.ends = lambda size, _: Fit.UNKNOWN
    answer = find_largest(machine.attempt, Bound(Limit.ASKED, 1400), {})
    assert answer.batch_size is None and WHY in (answer.reason or "")
    # 646 fitted 3 of 3 times, 647 failed once of 3, 648 fitted once: all of it is reported
    fits = [(646, Fit.FITS)] * 3 + [(647, Fit.FITS), (647, Fit.TOO_LARGE), (647, Fit.FITS), (300, Fit.FITS)]
    tried = tuple(Tried(size, fit, "", None) for size, fit in fits)
    around = (Tried(648, Fit.FITS, "", None), Tried(704, Fit.TOO_LARGE, "", None))
    lifted = (Tried(647, Fit.FITS, "", None, lifted=True),)
    answer = Largest(646, None, Limit.GROUP, 1, around=around, tried=(*tried, *lifted))
    assert answer.counts_around == {646: (3, 3), 647: (2, 3), 648: (1, 1)}


def test_one_size_far_beyond_of_which_nothing_can_be_said_does_not_end_the_search() -> None:
    """TensorFlow under 340 MiB: two trials of close sizes say little about the memory per image. A first guess of
    55,100 crashed whatever the memory. The answer is far below, and is looked for there."""
    machine = Machine(lambda size: 1e9 + (1e6 if size > 32 else 1e4) * size, 1_400_000_000)
    machine.ends = lambda size, _: Fit.UNKNOWN if size > 450 else None
    bound, counted = Bound(Limit.ASKED, machine.limit_bytes), {size: machine.use(size) for size in (8, 16)}
    answer = find_largest(machine.attempt, bound, counted)
    assert any(each.fit is Fit.UNKNOWN for each in answer.tried)
    assert proven(answer, machine) == 400


@pytest.mark.parametrize("with_more", [Fit.FITS, Fit.TOO_LARGE])
def test_a_crash_that_fits_or_runs_out_of_memory_with_more_of_it_counts_as_too_large(with_more: Fit) -> None:
    machine = Machine(lambda size: 1000 + size, 1000 + 400)
    machine.ends = lambda size, _: Fit.UNKNOWN if size > 400 else None
    answer = machine.answer(lifted=lambda size: Tried(size, with_more, "lifted", None))
    assert answer.batch_size == 400 and answer.reason is None and len(answer.fails) == 2


@settings(SAME_EVERYWHERE, max_examples=60)
@given(ALLOCATORS, st.integers(1, 20_000))
def test_a_limit_that_ends_trials_in_any_way_has_an_exact_answer(use: Callable[[int], float], size: int) -> None:
    """MXNet may crash or hang where memory ends: the same trial with more memory shows that memory was the cause."""
    assume(use(size) < use(size + 1))
    machine = Machine(use, limit_for(use, size, 0.5))
    machine.ends = lambda s, _: None if machine.fits(s) else Fit.UNKNOWN
    answer = machine.answer(lifted=lambda s: Tried(s, Fit.FITS, "lifted", None))
    assert answer.batch_size is not None and not machine.fits(answer.batch_size + 1)
    assert (len(answer.fits), len(answer.fails)) == (2 if answer.batch_size else 0, 2)
    assert not answer.batch_size or machine.fits(answer.batch_size)
    assert answer.batch_size + 1 in {each.batch_size for each in answer.tried if each.lifted}


# Anonymous MiB by batch size, as PyTorch's counting process reported them for `tiny`: nearly all of it is noise.
FLAT = {1: 214.98, 2: 223.79, 3: 223.83, 4: 223.85, 6: 223.87, 8: 223.9, 16: 223.93, 32: 223.97, 64: 226.47,
        128: 226.5, 256: 226.78}  # fmt: skip


@pytest.mark.parametrize(("image_bytes", "most"), [(1000, 12), (1787, 12), (3000, 12), (4700, 13), (10_000, 15)])
def test_a_guess_far_beyond_what_was_counted_is_not_trusted_more_than_its_slope(image_bytes: int, most: int) -> None:
    """The line of FLAT leads to 114,154 under 420 MiB, whatever an image takes; each trial beyond is wasted."""
    machine = Machine(lambda size: 215 * MIB + image_bytes * size, 420 * MIB)
    counted = {size: told * MIB for size, told in FLAT.items()}
    answer = find_largest(machine.attempt, Bound(Limit.ASKED, machine.limit_bytes), counted)
    assert proven(answer, machine) == 205 * MIB // image_bytes and machine.trials.total() <= most


@pytest.mark.parametrize("limit", [300, 4096, 5000, 6001, 8191])
def test_a_limit_at_which_a_published_finder_errs_has_a_proven_answer(limit: int) -> None:
    """Lightning's finder returned 285 for 300, and for 4096 to 8191 a size that it had not tried."""
    machine = Machine(lambda size: 1000 + size, 1000 + limit)
    answer = machine.answer()
    assert proven(answer, machine) == limit
    assert all(each.fit is (Fit.FITS if each.batch_size <= limit else Fit.TOO_LARGE) for each in answer.tried)


@pytest.mark.parametrize("limit_bytes", [0, 500, 1000, 1049])
def test_where_not_even_one_image_fits_that_has_a_proof(limit_bytes: int) -> None:
    machine = Machine(lambda size: 1000 + 50 * size, limit_bytes)
    answer = machine.answer()
    assert (answer.batch_size, answer.reason, answer.fits, machine.trials) == (0, None, (), {1: 2})
    assert len(answer.fails) == 2


def test_a_search_without_a_counting_process_or_an_end_is_right() -> None:
    for size in (1, 2, 7, 100, 3000, 19_999):
        machine = Machine(osu_cnn(3e8, 512), limit_for(osu_cnn(3e8, 512), size, 0.5))
        answer = find_largest(machine.attempt, Bound(Limit.ASKED, machine.limit_bytes), {})
        assert proven(answer, machine) == size and machine.trials.total() <= bar(size) + 6
    answer = Machine(lambda size: 1000, 2000).answer()
    assert answer.batch_size is None and f"batch size {MOST} fits" in (answer.reason or "")
    assert len(answer.tried) < 40


def test_a_size_that_fits_only_sometimes_is_neither_the_answer_nor_called_too_large() -> None:
    """The answer is a smaller size that fits twice, and says why it may not be the largest."""
    machine = Machine(lambda size: 1000 + size, 1000 + 400)
    machine.ends = lambda size, _: Fit.TOO_LARGE if size in (399, 400) and machine.trials[size] > 1 else None
    answer = machine.answer()
    assert answer.batch_size is not None and 300 < answer.batch_size < 399
    assert answer.reason == "batch size 400 fits in one trial and not in another"
    assert len(answer.fits) == 2 and machine.trials[answer.batch_size] == 2


@for_each("size", [400, 401])
@for_each("with_more", [None, Fit.UNKNOWN])
def test_a_size_that_is_decided_once_and_never_again_ends_the_search(size: int, with_more: Fit | None) -> None:
    """400 fits in its first trial and 401 is too large. All later trials of one of them crash, whatever the memory."""
    machine = Machine(lambda size: 1000 + size, 1000 + 400)

    def end(tried: int, number: int) -> Fit | None:
        assert number < 50, "the search does not end"
        return Fit.UNKNOWN if tried == size and machine.trials[size] > 1 else None

    machine.ends = end
    answer = machine.answer(None if with_more is None else lambda tried: Tried(tried, with_more, "lifted", None))
    assert answer.batch_size is None and (answer.reason or "").startswith(f"batch size {size}: "), answer.reason
    assert "400 fits, 401 does not" in (answer.reason or "") and machine.trials[size] == 3


def test_one_more_that_fits_at_last_leaves_the_answer_unproven() -> None:
    machine = Machine(lambda size: 1000 + size, 1000 + 400)
    machine.ends = lambda size, _: Fit.FITS if size == 401 and machine.trials[size] > 1 else None
    answer = machine.answer()
    assert (answer.batch_size, answer.reason) == (400, "batch size 401 fits in one trial and not in another")
    assert len(answer.fits) == 2 and len(answer.fails) == 1


def test_memory_that_falls_beyond_the_answer_is_seen_and_not_taken() -> None:
    """dlib's 4 fails, 16 runs: a larger size that fits is reported next to the answer, and is none of its trials."""
    machine = Machine(lambda size: 1000 + size - (500 if size >= 408 else 0), 1000 + 403)
    answer = find_largest(machine.attempt, Bound(Limit.ASKED, 1403), {1: 1001.0, 256: 1256.0}, 404)
    assert answer.batch_size == 403 and answer.reason is None
    assert list_sizes_around(answer) == [402, 408, 424, 448, 504]
    answer = replace(answer, around=tuple(map(machine.attempt, list_sizes_around(answer))))
    assert answer.larger_that_fit == (408, 424, 448, 504)
