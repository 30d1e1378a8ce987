// A board that asks Tollhouse before it shows a comment. Needs nothing but Node 18 or later.
//
//     tollhouse init --preset comments --data ./data && tollhouse serve --data ./data
//     node examples/applications/comments.mjs http://127.0.0.1:8377
import assert from "node:assert";

const TOLLHOUSE = process.argv[2];

// Tollhouse's action, or `accept` where no answer comes: the board does not close with its guard.
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

const DAY = 86_400;

// What becomes of a comment: shown, held for a moderator, or refused.
async function publish(comment) {
  const action = await decide(comment);
  if (action === "review_after") return [action, "shown, and a moderator looks at it"];
  if (action === "review_before") return [action, "shown to its author, until a moderator has decided"];
  if (action === "reject") return [action, "refused"];
  return [action, "shown"];
}

const now = Date.now() / 1000;
const fine = await publish({
  user: "ann", joined: now - 300 * DAY, place: "bikes", opened: now - 900 * DAY, text: "Try another pump: mine leaked, too.",
  typed_seconds: 25, ip: "198.51.100.7", device: "d-ann",
});
console.log("honest:", ...fine);
// New accounts post one text with other numbers and the same link, from one place to the next.
let action, text;
for (let number = 0; number < 12; number++) {
  [action, text] = await publish({
    user: `new${number % 4}`, joined: now - 600, place: `place${number}`, opened: now - 300 * DAY,
    text: `Earn ${number * 7 + 100} euro a day from home, see how: https://cash.example/`,
    typed_seconds: 2, ip: `203.0.113.${number}`, device: `d-new${number}`,
  });
}
console.log("abuse:", action, text);
assert(["review_after", "review_before", "reject"].includes(action), action);
