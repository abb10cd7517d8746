"""`python -m tuner.simulator serve MODEL …`: a stand-in for `vllm serve`."""

from __future__ import annotations

import sys

from tuner.simulator.server.serve import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
