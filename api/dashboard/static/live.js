// A study's events as they happen: none lost, none twice, whatever the connection does.

import { get, isRefusal, studyPath } from "./api.js";

const RETRY_MS = 3000;

/**
 * Follow a study from event `after` on. `onEvent(event)` gets each once and in order;
 * `onState("live" | "lost")` hears of the connection, and `onRefused(problem)` when trying again is of
 * no use: signed out, or the study is gone. Returns a function that ends it.
 */
export function follow(reference, after, onEvent, onState, onRefused) {
  let last = after;
  let source = null;
  let timer = null;
  let ended = false;

  function open() {
    if (ended) return;
    source = new EventSource(`/api/v1/studies/${encodeURIComponent(reference)}/events?after=${last}`);
    source.onopen = () => onState("live");
    source.onmessage = receive;
    source.addEventListener("study", receive);
    source.onerror = () => {
      // The browser would reconnect by itself, but not from where we are if it never got an id.
      source.close();
      onState("lost");
      if (!ended) timer = setTimeout(again, RETRY_MS);
    };
  }

  /** An event stream does not tell why it was refused: an ordinary request does. */
  async function again() {
    try {
      await get(studyPath(reference));
    } catch (error) {
      if (isRefusal(error)) {
        if (!ended) onRefused(error);
        return;
      }
      if (!ended) timer = setTimeout(again, RETRY_MS);
      return;
    }
    open();
  }

  function receive(message) {
    const event = JSON.parse(message.data);
    if (event.seq <= last) return;
    last = event.seq;
    onEvent(event);
  }

  open();
  return () => {
    ended = true;
    clearTimeout(timer);
    source?.close();
  };
}
