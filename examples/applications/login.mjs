// A log-in that asks Tollhouse before it answers. Needs nothing but Node 18 or later.
//
//     tollhouse init --preset login --data ./data && tollhouse serve --data ./data
//     node examples/applications/login.mjs http://127.0.0.1:8377
import assert from "node:assert";
import { createHmac } from "node:crypto";

const TOLLHOUSE = process.argv[2];
const KEY = "a secret of this application";
const ACCOUNTS = new Map([["ann", "correct horse"]]);
for (let number = 0; number < 30; number++) ACCOUNTS.set(`user${number}`, `secret ${number}`);

// Tollhouse's action, or `accept` where no answer comes: the site does not close with its guard.
async function decide(event) {
  try {
    const answer = await fetch(`${TOLLHOUSE}/v1/decide`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(event),
      signal: AbortSignal.timeout(1000),
    });
    return answer.ok ? (await answer.json()).action : "accept";
  } catch {
    return "accept";
  }
}

async function logIn(user, password, client) {
  const event = { site: "shop.example", user, ...client };
  if (!ACCOUNTS.has(user)) {
    event.result = "unknown_user";
  } else if (ACCOUNTS.get(user) !== password) {
    // Four digits of a keyed hash: enough to see one password tried everywhere, too little to find it out.
    event.result = "wrong_password";
    event.password = createHmac("sha256", KEY).update(password).digest("hex").slice(0, 4);
  } else {
    event.result = "success";
  }
  const action = await decide(event);
  if (["throttle", "reject"].includes(action)) {
    return [action, "Wrong name or password, or try again later."]; // also if both are right
  }
  if (action === "challenge") return [action, "Please enter the code that we sent you."];
  return [action, event.result === "success" ? "Welcome!" : "Wrong name or password."];
}

const agent = "Mozilla/5.0 (X11; Linux x86_64; rv:139.0) Gecko/20100101 Firefox/139.0";
const ann = { ip: "198.51.100.7", device: "d-ann", agent, country: "DE" };
console.log("honest:", ...(await logIn("ann", "correct horse", ann)));
// Somebody tries a leaked list from one address, and its last pair is right.
const other = { ip: "203.0.113.9", agent: "python-requests/2.32", country: "US" };
for (let number = 0; number < 20; number++) await logIn(`user${number}`, "letmein", other);
const [action, text] = await logIn("user20", "secret 20", other);
console.log("abuse:", action, text);
assert(["throttle", "reject"].includes(action), action);
