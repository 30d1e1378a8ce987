// A form that asks Tollhouse before it makes an account. Needs nothing but Node 18 or later.
//
//     tollhouse init --preset signup --data ./data && tollhouse serve --data ./data
//     node examples/applications/signup.mjs http://127.0.0.1:8377
import assert from "node:assert";

const TOLLHOUSE = process.argv[2];

// Tollhouse's action, or `accept` where no answer comes: the form does not close with its guard.
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

async function signUp(account) {
  const action = await decide(account);
  if (action === "challenge") return [action, "Please enter the code that we sent you."];
  if (["review_before", "reject"].includes(action)) return [action, "Thank you! We will write to you."];
  return [action, "Welcome!"];
}

const agent = "Mozilla/5.0 (X11; Linux x86_64; rv:139.0) Gecko/20100101 Firefox/139.0";
const anna = {
  email: "anna.meyer@gmx.de", name: "Anna Meyer", ip: "198.51.100.7", device: "d-ann", agent, country: "DE", form_seconds: 48,
};
console.log("honest:", ...(await signUp(anna)));
// One telephone makes account after account, by another proxy each time.
let action, text;
for (let number = 0; number < 15; number++) {
  [action, text] = await signUp({
    email: `bonus.hunter${number}@gmail.com`, name: "Max Muster", ip: `203.0.${number}.9`, device: "d-farm", agent, country: "DE",
    form_seconds: 9,
  });
}
console.log("abuse:", action, text);
assert(["challenge", "review_before", "reject"].includes(action), action);
