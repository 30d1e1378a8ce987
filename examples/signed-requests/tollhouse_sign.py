"""Signs requests of an application for Tollhouse (RFC 9421), with Python alone.

    headers = sign("POST", "https://shop.example/api/orders?draft=1", "shop-ios/4.2", secret=b"...", body=b"{}")

`secret` signs by HMAC-SHA-256. `private_key`, the 32 bytes of an ed25519 key, needs the package `cryptography`.
"""

import base64
import hashlib
import hmac
import os
import time
from urllib.parse import urlsplit


def sign(method, url, key_id, secret=None, private_key=None, body=None, created=None, nonce=None):
    """Returns the header fields that are to be sent with the request. Each request is signed anew: a nonce counts once."""
    parts = urlsplit(url)
    default = {"https": ":443", "http": ":80"}[parts.scheme]
    created = int(time.time()) if created is None else created
    nonce = nonce or base64.urlsafe_b64encode(os.urandom(18)).decode()
    covered = {
        "@method": method,
        "@authority": parts.netloc.rpartition("@")[2].lower().removesuffix(default),
        "@path": parts.path or "/",
        "@query": "?" + parts.query,
    }
    headers = {}
    if body is not None:
        digest = base64.b64encode(hashlib.sha256(body).digest()).decode()
        headers["Content-Digest"] = covered["content-digest"] = f"sha-256=:{digest}:"
    names = " ".join(f'"{name}"' for name in covered)
    algorithm = "hmac-sha256" if secret is not None else "ed25519"
    parameters = f'({names});created={created};nonce="{nonce}";keyid="{key_id}";alg="{algorithm}";tag="tollhouse-app"'
    lines = [f'"{name}": {value}' for name, value in covered.items()]
    base = "\n".join([*lines, f'"@signature-params": {parameters}']).encode("ascii")
    if secret is not None:
        signature = hmac.new(secret, base, hashlib.sha256).digest()
    else:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        signature = Ed25519PrivateKey.from_private_bytes(private_key).sign(base)
    headers["Signature-Input"] = f"app={parameters}"
    headers["Signature"] = f"app=:{base64.b64encode(signature).decode()}:"
    return headers


if __name__ == "__main__":
    # METHOD URL APPLICATION/VERSION [BODY]: prints the header fields, for `curl -H @-`. The secret is in TOLLHOUSE_SECRET.
    import sys

    method, url, key_id, *rest = sys.argv[1:]
    given = os.environ.get("TOLLHOUSE_CREATED")
    headers = sign(
        method,
        url,
        key_id,
        secret=os.environ["TOLLHOUSE_SECRET"].encode(),
        body=rest[0].encode() if rest else None,
        created=int(given) if given else None,
    )
    for name, value in headers.items():
        print(f"{name}: {value}")
