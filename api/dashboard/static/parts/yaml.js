// A document as YAML that reads back to the same values: every text that could be anything else is quoted.

const PLAIN = /^[A-Za-z][A-Za-z0-9_./-]*$/;
const WORDS = /^(true|false|yes|no|on|off|null|y|n|~)$/i;

function scalar(value) {
  if (typeof value !== "string") return JSON.stringify(value);
  return PLAIN.test(value) && !WORDS.test(value) ? value : JSON.stringify(value);
}

export function toYaml(value, indent = "") {
  if (value === null || typeof value !== "object") return scalar(value);
  if (Array.isArray(value)) return `[${value.map(scalar).join(", ")}]`;
  const entries = Object.entries(value);
  if (!entries.length) return "{}";
  return entries.map(([key, item]) => {
    const nested = item !== null && typeof item === "object" && !Array.isArray(item) && Object.keys(item).length > 0;
    return `${indent}${scalar(key)}:${nested ? `\n${toYaml(item, `${indent}  `)}` : ` ${toYaml(item)}`}`;
  }).join("\n");
}
