"""Explores in a process of its own: a line of JSON in, a line of JSON out.  run.py and test_c11.py
start it as ``python worker.py BUILT``, where BUILT is what build.py made."""

import ctypes
import json
import sys
from pathlib import Path

built = Path(sys.argv[1])
# Global: the modules call into it.
ctypes.CDLL(str(built / "checker.so"), ctypes.RTLD_GLOBAL)
sys.path.insert(0, str(built))

import scenarios  # noqa: E402  (it exists only there)

print(json.dumps(scenarios.SCENARIOS), flush=True)
for line in sys.stdin:
    name, options = json.loads(line)
    print(json.dumps(scenarios.explore(name, **options)), flush=True)
