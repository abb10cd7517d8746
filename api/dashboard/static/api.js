// The public JSON API, and nothing else, is where the dashboard's data comes from.

const ROOT = "/api/v1";
const CSRF_COOKIE = "servetune_csrf";

/** An answer other than success: RFC 9457's document, or what stands in for it. */
export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `The server answered ${status}.`);
    this.status = status;
    this.title = document.title ?? "";
    this.hint = document.hint ?? null;
    this.faults = document.errors ?? [];
  }
}

/** Whether asking again is of no use: signed out, not allowed, or gone. */
export const isRefusal = (error) => error instanceof Problem && [401, 403, 404].includes(error.status);

/** The network or the server is away. */
export class Unreachable extends Error {}

/** The token of this browser's session; null without one. */
export function csrfToken() {
  const found = document.cookie.split("; ").find((part) => part.startsWith(`${CSRF_COOKIE}=`));
  return found ? decodeURIComponent(found.slice(CSRF_COOKIE.length + 1)) : null;
}

async function send(method, path, { body, headers = {}, raw = false } = {}) {
  const options = { method, headers: { Accept: "application/json", ...headers }, credentials: "same-origin", cache: "no-store" };
  if (method !== "GET") options.headers["X-CSRF-Token"] = csrfToken() ?? "";
  if (body instanceof FormData || body instanceof Blob) options.body = body;
  else if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path.startsWith("/") ? path : `${ROOT}/${path}`, options);
  } catch (error) {
    throw new Unreachable("The server cannot be reached.", { cause: error });
  }
  if (answer.ok) {
    if (raw) return answer;
    return answer.status === 204 ? null : answer.json();
  }
  let document = {};
  try {
    document = await answer.json();
  } catch {
    // A proxy's page instead of ours: the status says what there is to say.
  }
  throw new Problem(answer.status, document);
}

export const get = (path) => send("GET", path);
export const text = async (path) => (await send("GET", path, { raw: true, headers: { Accept: "text/plain" } })).text();
export const post = (path, body, headers) => send("POST", path, { body, headers });
export const remove = (path) => send("DELETE", path);

let asked = null;

/** Who is signed in, asked for once: {scopes, …}. */
export function session() {
  asked ??= get("session").catch((error) => {
    asked = null;
    throw error;
  });
  return asked;
}

/** Whether this key may change anything. */
export const mayWrite = async () => (await session()).scopes.some((scope) => scope !== "read");

/** Every item of a paged collection. */
export async function all(path, limit = 200) {
  const items = [];
  let cursor = null;
  do {
    const mark = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const page = await get(`${path}${path.includes("?") ? "&" : "?"}limit=${limit}${mark}`);
    items.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor !== null);
  return items;
}

/** The path of a study's resource. */
export function studyPath(reference, ...parts) {
  return ["studies", encodeURIComponent(reference), ...parts].join("/");
}
