// Signs requests of an application for Tollhouse (RFC 9421), in browsers, Node.js, Deno and React Native with Web Crypto.
//
//   const headers = await sign("POST", "https://shop.example/api/orders?draft=1", "shop-web/7", {secret, body});
//   await fetch(url, {method: "POST", headers, body});
//
// `secret` is a text or bytes, and signs by HMAC-SHA-256. `privateKey` is a CryptoKey of Ed25519, which may be one that cannot be exported.

const text = new TextEncoder();

const base64 = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes)));

// The header fields that are to be sent with the request. Each request is signed anew: a nonce counts once.
export async function sign(method, url, keyId, {secret, privateKey, body, created, nonce} = {}) {
  // The target as it was written: what `URL` makes of it is not always what is sent.
  const [, scheme, authority, path, query] = /^(https?):\/\/([^/?#]*)([^?#]*)(?:\?([^#]*))?/.exec(url);
  created ??= Math.floor(Date.now() / 1000);
  nonce ??= base64(crypto.getRandomValues(new Uint8Array(18)));
  const port = scheme === "https" ? /:443$/ : /:80$/;
  const covered = {
    "@method": method,
    "@authority": authority.replace(/^.*@/, "").toLowerCase().replace(port, ""),
    "@path": path || "/",
    "@query": `?${query ?? ""}`,
  };
  const headers = {};
  if (body !== undefined) {
    const bytes = typeof body === "string" ? text.encode(body) : body;
    const digest = base64(await crypto.subtle.digest("SHA-256", bytes));
    headers["Content-Digest"] = covered["content-digest"] = `sha-256=:${digest}:`;
  }
  const names = Object.keys(covered).map((name) => `"${name}"`).join(" ");
  const algorithm = secret === undefined ? "ed25519" : "hmac-sha256";
  const parameters =
    `(${names});created=${created};nonce="${nonce}";keyid="${keyId}";alg="${algorithm}";tag="tollhouse-app"`;
  const lines = Object.entries(covered).map(([name, value]) => `"${name}": ${value}`);
  const base = text.encode([...lines, `"@signature-params": ${parameters}`].join("\n"));
  let signature;
  if (secret === undefined) {
    signature = await crypto.subtle.sign("Ed25519", privateKey, base);
  } else {
    const bytes = typeof secret === "string" ? text.encode(secret) : secret;
    const key = await crypto.subtle.importKey("raw", bytes, {name: "HMAC", hash: "SHA-256"}, false, ["sign"]);
    signature = await crypto.subtle.sign("HMAC", key, base);
  }
  headers["Signature-Input"] = `app=${parameters}`;
  headers["Signature"] = `app=:${base64(signature)}:`;
  return headers;
}

// METHOD URL APPLICATION/VERSION [BODY]: prints the header fields, for `curl -H @-`. The secret is in TOLLHOUSE_SECRET, or the private key,
// a JSON web key of Ed25519, in TOLLHOUSE_KEY.
if (typeof process !== "undefined" && process.argv[1]?.endsWith("tollhouse-sign.mjs")) {
  const {TOLLHOUSE_SECRET: secret, TOLLHOUSE_KEY: jwk, TOLLHOUSE_CREATED: created} = process.env;
  const privateKey = jwk && (await crypto.subtle.importKey("jwk", JSON.parse(jwk), "Ed25519", false, ["sign"]));
  const [method, url, keyId, body] = process.argv.slice(2);
  const options = {secret, privateKey, body, created: created && Number(created)};
  for (const [name, value] of Object.entries(await sign(method, url, keyId, options))) {
    console.log(`${name}: ${value}`);
  }
}
