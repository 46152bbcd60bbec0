// Axes: what they span, what is zoomed into, and ticks at round values.

const STEPS = [1, 2, 2.5, 5, 10];
const TICKS = 5;

// An axis in its own space: logarithmic ones are even there.
function space(logarithmic) {
  return logarithmic
    ? { to: Math.log10, from: (value) => 10 ** value }
    : { to: (value) => value, from: (value) => value };
}

function spanOfX(xs, logarithmic) {
  const { to, from } = space(logarithmic);
  const [low, high] = [Math.min(...xs), Math.max(...xs)].map(to);
  const room = high > low ? (high - low) * 0.035 : logarithmic ? 0.3 : Math.abs(high) * 0.1 || 1;
  return [from(low === 0 && !logarithmic ? 0 : low - room), from(high + room)];
}

// From 0 on a linear axis, so that a length is an amount; a value above `fullScale` is shown, not cut off.
function spanOfY(values, logarithmic, fullScale) {
  const used = logarithmic ? values.filter((value) => value > 0) : values;
  if (!used.length) return logarithmic ? [0.1, 1] : [0, 1];
  const [low, high] = [Math.min(...used), Math.max(...used)];
  if (logarithmic) return high > low ? [low / 1.15, high * 1.15] : [low / 2, high * 2];
  const bottom = Math.min(0, low);
  if (fullScale !== null && high <= fullScale * 1.0001) return [bottom, fullScale];
  const top = high * 1.02 || 1;
  const { step } = ticks([bottom, top], false);
  return [Math.floor(bottom / step) * step, Math.ceil(top / step) * step];
}

// {step, at}: 1, 2, 2.5 or 5 times a power of ten, about TICKS of them; on a logarithmic axis by decades.
function ticks([low, high], logarithmic) {
  if (logarithmic && high / low > 3) {
    const decades = Math.log10(high / low);
    const factors = decades > 5 ? [1] : decades > 2.5 ? [1, 3] : [1, 2, 5];
    const at = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      for (const factor of factors)
        if (factor * 10 ** power >= low && factor * 10 ** power <= high) at.push(clean(factor * 10 ** power));
    return { step: null, at };
  }
  const rough = (high - low) / TICKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = STEPS.find((factor) => factor * power >= rough * 0.999) * power;
  const at = [];
  for (let count = Math.ceil(low / step - 1e-9); count * step <= high * (1 + 1e-9); count++)
    at.push(clean(count * step));
  return { step, at };
}

function clean(value) {
  return Number(value.toPrecision(12));
}

// `factor` < 1 zooms in about the middle; `shift` moves by parts of what is seen. Never beyond `whole`.
function moved(seen, whole, logarithmic, factor, shift) {
  const { to, from } = space(logarithmic);
  const [low, high] = seen.map(to);
  const [least, most] = whole.map(to);
  const width = Math.min((high - low) * factor, most - least);
  const middle = (low + high) / 2 + shift * (high - low);
  const start = Math.min(Math.max(middle - width / 2, least), most - width);
  return [from(start), from(start + width)];
}
