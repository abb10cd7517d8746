// Why a configuration could not run, in words and with a sign; the class is docs/diagnosis.md's.

const WORDS = {
  oom_profile: ["OOM in profiling", "out of memory while profiling"], oom_weights: ["OOM at weights", "the weights do not fit"],
  oom_capture: ["OOM in capture", "out of memory capturing CUDA graphs"], oom_sampler_warmup: ["OOM in warm-up", "out of memory warming the sampler up"],
  oom_runtime: ["OOM under load", "out of memory under load"], host_oom: ["host OOM", "the host's memory ran out"],
  kv_none: ["no KV cache", "no room for a KV cache"], kv_too_small: ["KV too small", "KV cache too small"], kv_too_large: ["KV too large", "KV cache too large"],
  kv_shrunk_by_cudagraph_estimate: ["KV shrunk", "KV cache shrunk by the CUDA graph estimate"], mamba_blocks: ["too few blocks", "too few state blocks"],
  config_rejected: ["rejected", "rejected by the engine"], bad_flag: ["flag refused", "a flag was refused"], stalled: ["stalled", "stalled: a request exceeds the KV cache"],
  hang: ["hung", "stopped answering"], startup_timeout: ["start too slow", "did not start in time"], preemption: ["preempting", "preempting"], kv_bound: ["KV bound", "bound by the KV cache"],
};
const SYMBOLS = ["x", "cross", "triangle-down", "diamond-x", "hash", "bowtie", "hourglass", "asterisk"];

/** A sentence's worth. */
export function failureWords(failureClass) {
  return WORDS[failureClass]?.[1] ?? (failureClass ? failureClass.replaceAll("_", " ") : "could not run");
}

function shortWords(failureClass) {
  return WORDS[failureClass]?.[0] ?? failureWords(failureClass);
}

/** Trials that could not run by their class: {name, words, symbol, trials} in the order of the classes. */
export function infeasibleGroups(trials) {
  const groups = new Map();
  for (const trial of trials) {
    if (trial.state !== "infeasible") continue;
    const key = trial.failure_class ?? "";
    groups.set(key, [...(groups.get(key) ?? []), trial]);
  }
  return [...groups.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, members], i) => ({ name: shortWords(key), words: failureWords(key), symbol: SYMBOLS[i % SYMBOLS.length], trials: members }));
}
