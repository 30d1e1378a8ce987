#!/usr/bin/env python3
"""Makes the files beside this one: an operator, an account with JetStream and a user of it (accounts.conf, user.creds); an
authority, and certificates of it for 127.0.0.1 and for a client (authority.pem, certificate.pem, key.pem).

Needs the package `cryptography`. The keys are good for nothing but this test. (docs.nats.io, "JWTs and Privacy".)
"""
import base64
import binascii
import datetime
import hashlib
import ipaddress
import json
import pathlib

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HERE = pathlib.Path(__file__).parent
SEED, OPERATOR, ACCOUNT, USER = 18 << 3, 14 << 3, 0, 20 << 3


def base32(raw):
    raw += binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(raw).decode().rstrip("=")


class Key:
    def __init__(self, prefix):
        self.key = Ed25519PrivateKey.generate()
        self.prefix = prefix
        self.name = base32(bytes([prefix]) + self.key.public_key().public_bytes_raw())

    def seed(self):
        head = [SEED | self.prefix >> 5, (self.prefix & 31) << 3]
        return base32(bytes(head) + self.key.private_bytes_raw())


def text(raw):
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def token(issuer, subject, name, nats):
    claims = {"iat": 1700000000, "iss": issuer.name, "name": name, "sub": subject.name, "nats": {**nats, "version": 2}}
    claims["jti"] = base64.b32encode(hashlib.sha256(json.dumps(claims).encode()).digest()).decode().rstrip("=")
    head = {"typ": "JWT", "alg": "ed25519-nkey"}
    signed = ".".join(text(json.dumps(part, separators=(",", ":")).encode()) for part in (head, claims))
    return f"{signed}.{text(issuer.key.sign(signed.encode()))}"


def credentials():
    operator, system, account, user = Key(OPERATOR), Key(ACCOUNT), Key(ACCOUNT), Key(USER)
    everything = {"subs": -1, "conn": -1, "leaf": -1, "imports": -1, "exports": -1, "data": -1, "payload": -1,
                  "wildcards": True, "mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    nothing_kept = {**everything, "mem_storage": 0, "disk_storage": 0}
    of_operator = token(operator, operator, "operator", {"type": "operator", "system_account": system.name})
    of_account = {"type": "account", "default_permissions": {"pub": {}, "sub": {}}}
    accounts = [(system, nothing_kept), (account, everything)]
    accounts = [(key.name, token(operator, key, "account", {**of_account, "limits": limits})) for key, limits in accounts]
    accounts = "".join(f"  {name}: {claims}\n" for name, claims in accounts)
    of_user = token(account, user, "user", {"type": "user", "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1})
    (HERE / "accounts.conf").write_text(
        f"operator: {of_operator}\nsystem_account: {system.name}\nresolver: MEMORY\nresolver_preload: {{\n{accounts}}}\n")
    (HERE / "user.creds").write_text(
        f"-----BEGIN NATS USER JWT-----\n{of_user}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{user.seed()}\n------END USER NKEY SEED------\n")


def certify(name, key, issuer, issuer_key, extensions):
    begin = datetime.datetime(2026, 1, 1)
    builder = (x509.CertificateBuilder().subject_name(name).issuer_name(issuer).public_key(key.public_key())
               .serial_number(x509.random_serial_number()).not_valid_before(begin)
               .not_valid_after(begin.replace(year=2126)))
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def certificates():
    named = lambda name: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    authority, host = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    of_authority = [(x509.BasicConstraints(ca=True, path_length=0), True)]
    of_host = [(x509.BasicConstraints(ca=False, path_length=None), True),
               (x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False),
               (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), False)]
    (HERE / "authority.pem").write_bytes(certify(named("authority"), authority, named("authority"), authority, of_authority))
    (HERE / "certificate.pem").write_bytes(certify(named("nats"), host, named("authority"), authority, of_host))
    (HERE / "key.pem").write_bytes(host.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))


credentials()
certificates()
