// Numbers, durations and moments for people. What was not measured is a dash, never a zero.

export const DASH = "–";

const clockModes = ["utc", "local"];
let clock = "utc";
try {
  clock = clockModes.includes(localStorage.getItem("servetune-clock")) ? localStorage.getItem("servetune-clock") : "utc";
} catch {
  // Without storage the choice lasts as long as the page.
}

export function clockMode() {
  return clock;
}

export function setClockMode(mode) {
  clock = mode;
  try {
    localStorage.setItem("servetune-clock", mode);
  } catch {
    // As above.
  }
}

// Made once: making one for every number takes a page of a thousand trials half a second.
const DAY = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
const DAY_UTC = new Intl.DateTimeFormat("en-GB", { ...DAY, timeZone: "UTC" });
const DAY_LOCAL = new Intl.DateTimeFormat("en-GB", DAY);
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const FINE = new Intl.NumberFormat("en", { maximumFractionDigits: 6 });

/** A number with three significant digits, or a dash. */
export function quantity(value, unit = "") {
  if (value === null || value === undefined) return DASH;
  const digits = Math.abs(value) >= 1000 ? WHOLE.format(Math.round(value)) : FINE.format(Number(value.toPrecision(3)));
  return unit ? `${digits} ${unit}` : digits;
}

/** A reading {value, low, high, censored} with its interval. */
export function reading(found, unit = "") {
  if (!found) return DASH;
  const value = `${found.censored ? "≥ " : ""}${quantity(found.value, unit)}`;
  if (found.low === null || found.high === null || found.low === undefined) return value;
  return `${value} (${quantity(found.low)}–${quantity(found.high)})`;
}

/** A reading's value and, apart, its interval: null where there is none. */
export function parts(found, unit = "") {
  if (!found) return [DASH, null];
  const alone = reading({ ...found, low: null, high: null }, unit);
  return [alone, found.low === null || found.high === null || found.low === undefined ? null : `${quantity(found.low)}–${quantity(found.high)}`];
}

/** A change in percent with its sign. */
export function signed(value) {
  return value === null || value === undefined ? DASH : `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(1)} %`;
}

/** A share as percent. */
export function percent(share, digits = 0) {
  return share === null || share === undefined ? DASH : `${(100 * share).toFixed(digits)} %`;
}

/** A score is the logarithm of an improvement: +0.095 reads "+10.0 %". */
export function gain(score) {
  if (score === null || score === undefined) return DASH;
  const digits = Math.abs(100 * Math.expm1(score)).toFixed(1);
  if (Number(digits) === 0) return "±0.0 %";
  return `${score > 0 ? "+" : "−"}${digits} %`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return DASH;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

export function minutes(value) {
  return value === null || value === undefined ? DASH : `${quantity(value)} min`;
}

/** A moment in UTC or local time, as the reader chose. */
export function moment(iso) {
  if (!iso) return DASH;
  const at = new Date(iso);
  const options = { dateStyle: "medium", timeStyle: "medium", timeZone: clock === "utc" ? "UTC" : undefined };
  return `${new Intl.DateTimeFormat("en-GB", options).format(at)}${clock === "utc" ? " UTC" : ""}`;
}

export function timeOfDay(iso) {
  const format = clock === "utc" ? DAY_UTC : DAY_LOCAL;
  return format.format(new Date(iso));
}

export function flagValue(value) {
  if (value === null || value === undefined) return DASH;
  if (value === true) return "on";
  if (value === false) return "off";
  return typeof value === "number" ? String(value) : String(value);
}
