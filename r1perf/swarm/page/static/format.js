// Write numbers for people, as r1perf's other reports do: three significant digits with a unit; what is missing is a dash.

export const NONE = "–";

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export function digits(value) {
  const size = Math.abs(value);
  if (size >= 999.5) return grouped.format(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

export function duration(ms) {
  if (ms == null) return NONE;
  if (Math.abs(ms) < 999.5) return `${digits(ms)} ms`;
  if (Math.abs(ms) < 999500) return `${digits(ms / 1000)} s`;
  return `${digits(ms / 60000)} min`;
}

export const count = (n) => (n == null ? NONE : grouped.format(n));

export const rate = (perSecond) => (perSecond == null ? NONE : digits(perSecond));

export const percent = (share) => (share == null ? NONE : `${digits(100 * share)} %`);

export function share(part, whole) {
  if (!whole) return NONE;
  const percents = (100 * part) / whole;
  if (percents > 0 && percents < 0.1) return "<0.1 %";
  return percents > 99.9 && percents < 100 ? ">99.9 %" : `${percents.toFixed(1)} %`;
}

export function span(seconds) {
  const whole = Math.round(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (n) => String(n).padStart(2, "0");
  if (hours) return `${hours}:${two(minutes)}:${two(rest)}`;
  return minutes ? `${minutes}:${two(rest)}` : `${rest} s`;
}

// A tick of a time axis: always m:ss or h:mm:ss, so that all ticks of an axis look alike.
export function clock(seconds) {
  const whole = Math.round(seconds);
  const text = span(whole);
  return whole < 60 ? `0:${String(whole).padStart(2, "0")}` : text;
}

// A tick of a value axis: as short as the number allows.
export function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(3))}k`;
  return String(Number(value.toPrecision(6)));
}

export function shortDuration(ms) {
  const size = Math.abs(ms);
  if (size >= 60000 && ms % 60000 === 0) return `${short(ms / 60000)} min`;
  return size >= 1000 ? `${short(ms / 1000)} s` : `${short(ms)} ms`;
}

export const words = (name) => name.replaceAll("_", " ");
