// A checkout that asks Tollhouse before it tells the payer. Needs nothing but Node 18 or later.
//
//     tollhouse init --preset payment --data ./data && tollhouse serve --data ./data
//     node examples/applications/payment.mjs http://127.0.0.1:8377
import assert from "node:assert";

const TOLLHOUSE = process.argv[2];

// Tollhouse's action, or `accept` where no answer comes: the shop does not close with its guard.
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

// Stands for the payment provider: cards with an even last digit have money.
const charge = (card) => (Number(card.at(-1)) % 2 === 0 ? "approved" : "declined");

async function pay(payment) {
  const result = charge(payment.card);
  const action = await decide({ ...payment, result });
  if (action === "reject") return [action, "declined"]; // and what was approved is voided
  if (action === "review_before") return [action, "confirmed by a second factor, or looked at before it is shipped"];
  return [action, result];
}

const ann = {
  user: "ann", account_hours: 9000, ip: "198.51.100.7", device: "d-ann", country: "DE", card: "card-0", issuer: "400012",
  card_country: "DE", ship_country: "DE", amount: 4990,
};
console.log("honest:", ...(await pay(ann)));
// A list of stolen cards is tried, by another proxy each time, but from one computer.
let action, text;
for (let number = 0; number < 20; number++) {
  [action, text] = await pay({
    user: `t${number}`, account_hours: 1, ip: `203.0.${number}.9`, device: "d-test", country: "US",
    card: `card-${number * 3 + 11}`, issuer: "500077", card_country: "US", ship_country: "US", amount: 100,
  });
}
console.log("abuse:", action, text);
assert(["review_before", "reject"].includes(action), action);
