"""Has the challenge page's solver solve challenges of PyPI's altcha, which verifies them: solver.py NODE SOLVER PACKAGES."""

import json
import subprocess
import sys
import tempfile

from altcha import v2

made = []
# Shorter keys of SHA-256 are cut after each digest by npm's library and by ours, after the last by this one.
for algorithm, lengths in ("PBKDF2/SHA-256", (16, 20, 32, 48)), ("SHA-256", (32,)):
    for cost in (1, 2, 90, 300):
        for prefix in ("", "0", "a1", *(["0c3"] if cost == 2 else [])):
            for length in lengths:
                challenge = v2.create_challenge(
                    algorithm, cost, key_prefix=prefix, key_length=length, expires_at=4_000_000_000,
                    data={"host": "é", "n": 1.5}, hmac_secret="secret",
                )
                made.append(challenge.to_dict())
with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
    json.dump(made, file)
    file.flush()
    solved = subprocess.run([*sys.argv[1:3], sys.argv[3], file.name], check=True, capture_output=True, text=True)
payloads = json.loads(solved.stdout)
assert len(payloads) == 2 * len(made)
for payload in payloads:
    result = v2.verify_solution(v2.Payload.from_dict(payload), "secret")
    assert result.verified, (payload, vars(result))
print(f"verified {len(payloads)}")
