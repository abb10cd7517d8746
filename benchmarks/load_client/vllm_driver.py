"""Drives vLLM's own benchmark request function. Runs in vLLM's environment, without ServeTune.

    python vllm_driver.py FUNCTION_FILE URL {streams,requests} AMOUNT WARMUP_S WINDOW_S

Sessions and connectors are made as `vllm bench serve` makes them, on asyncio as there. Prints one
JSON object. The function's file is loaded by itself, without the rest of vLLM.
"""

import asyncio
import importlib.util
import json
import random
import resource
import sys
import time

import aiohttp

PROMPT = [5] * 16


def load_function(path):
    """The request function and its input class, from the installed wheel's file."""
    spec = importlib.util.spec_from_file_location("endpoint_request_func", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Window:
    """CPU seconds between two moments."""

    def __init__(self, warmup_s, window_s):
        self.begin_s = time.perf_counter() + warmup_s
        self.end_s = self.begin_s + window_s
        self.cpu_s = 0.0

    async def watch(self):
        await asyncio.sleep(self.begin_s - time.perf_counter())
        before_s = time.process_time()
        await asyncio.sleep(self.end_s - time.perf_counter())
        self.cpu_s = time.process_time() - before_s


async def streams(ask, count, window):
    """A closed loop of `count` answers, begun over the first second."""
    done = []

    async def one(slot):
        await asyncio.sleep(slot / count)
        while time.perf_counter() < window.end_s:
            done.append(await ask(100))

    watcher = asyncio.ensure_future(window.watch())
    await asyncio.gather(*(one(slot) for slot in range(count)))
    await watcher
    return done


async def requests(ask, rate_per_s, window):
    """Poisson arrivals by an absolute schedule, as vLLM's benchmark sends them."""
    draw = random.Random(1)
    tasks, at_s = [], time.perf_counter()
    watcher = asyncio.ensure_future(window.watch())
    while at_s < window.end_s:
        at_s += draw.expovariate(rate_per_s)
        wait_s = at_s - time.perf_counter()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        tasks.append(asyncio.ensure_future(ask(2)))
    done = await asyncio.gather(*tasks)
    await watcher
    return done


async def run(module, url, kind, amount, warmup_s, window_s):
    connector = aiohttp.TCPConnector(
        limit=0,
        limit_per_host=0,
        ttl_dns_cache=300,
        use_dns_cache=True,
        keepalive_timeout=60,
        enable_cleanup_closed=True,
        force_close=False,
        ssl=False,
    )
    async with aiohttp.ClientSession(
        connector=connector, trust_env=False, timeout=module.AIOHTTP_TIMEOUT
    ) as session:

        def ask(tokens):
            wanted = module.RequestFuncInput(
                prompt=PROMPT,
                api_url=f"{url}/v1/completions",
                prompt_len=len(PROMPT),
                output_len=tokens,
                model="truth",
                ignore_eos=True,
            )
            return module.async_request_openai_completions(wanted, session)

        window = Window(warmup_s, window_s)
        send = streams if kind == "streams" else requests
        done = await send(ask, int(amount) if kind == "streams" else amount, window)
    return window, done


def percentile(values, share):
    ordered = sorted(values)
    return ordered[int(share * (len(ordered) - 1))] if ordered else None


def tokens_inside(done, window):
    """Chunks that the function stamped within the window, and requests begun in it."""
    tokens = begun = 0
    for output in done:
        begun += window.begin_s <= output.start_time < window.end_s
        at_s = output.start_time + output.ttft
        tokens += window.begin_s <= at_s < window.end_s
        for gap_s in output.itl:
            at_s += gap_s
            tokens += window.begin_s <= at_s < window.end_s
    return tokens, begun


def main(arguments):
    path, url, kind, amount, warmup_s, window_s = arguments
    window_s = float(window_s)
    module = load_function(path)
    window, done = asyncio.run(run(module, url, kind, float(amount), float(warmup_s), window_s))
    good = [output for output in done if output.success]
    ttft = [output.ttft * 1000 for output in good]
    itl = [gap * 1000 for output in good for gap in output.itl]
    tokens, begun = tokens_inside(good, window)
    json.dump(
        {
            "failed": len(done) - len(good),
            "ttft_mean_ms": sum(ttft) / len(ttft) if ttft else None,
            "ttft_p99_ms": percentile(ttft, 0.99),
            "itl_mean_ms": sum(itl) / len(itl) if itl else None,
            "itl_p99_ms": percentile(itl, 0.99),
            "tokens_per_s": tokens / window_s,
            "requests_per_s": begun / window_s,
            "cpu_share": window.cpu_s / window_s,
            "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
