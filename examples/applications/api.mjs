// An interface that asks Tollhouse before its answer goes out. Needs nothing but Node 18 or later.
//
//     tollhouse init --preset api --data ./data && tollhouse serve --data ./data
//     node examples/applications/api.mjs http://127.0.0.1:8377
import assert from "node:assert";

const TOLLHOUSE = process.argv[2];

// Tollhouse's action, or `accept` where no answer comes: the interface does not close with its guard.
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

const ORDERS = new Map();
for (let number = 0; number < 1000; number += 10) ORDERS.set(`order/${number}`, { total: number });

// The status and body of an answer: looked up first, then asked about, then sent.
async function get(key, object, ip, agent) {
  const found = ORDERS.get(object);
  const status = found ? 200 : 404;
  const action = await decide({ key, ip, agent, endpoint: "/v1/orders", object, method: "GET", status });
  if (action === "throttle") return [action, 429, "too many requests, try again in a minute"];
  if (action === "reject") return [action, 403, "this key is blocked"];
  return [action, status, found];
}

console.log("honest:", ...(await get("partner-1", "order/10", "198.51.100.7", "shop-sdk/3.1")));
// Somebody goes through all numbers, to find those that there are.
let answer;
for (let number = 0; number < 60; number++) {
  answer = await get("free-77", `order/${number * 3 + 1}`, "203.0.113.9", "python-requests/2.32");
}
console.log("abuse:", ...answer);
assert(["throttle", "reject"].includes(answer[0]), answer[0]);
