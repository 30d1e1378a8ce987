// Plays cases.json to the client and its middleware, or asks a real node. Prints a line for each; fails on the first that differs.
//
//     node test_cases.mjs URL-OF-THE-FAULT-SERVER [NODE_MODULES-WITH-EXPRESS]
//     node test_cases.mjs --node URL TOKEN
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { Tollhouse, TollhouseError, express, refusal } from "./tollhouse.mjs";

const file = (name) => readFileSync(new URL(`../cases/${name}`, import.meta.url), "utf8");
const CASES = JSON.parse(file("cases.json"));
const [FAULTS, MODULES, TOKEN] = process.argv.slice(2);
const NAMES = { decide_many: "decideMany" };

const ask = async (path) => (await fetch(FAULTS + path, { method: "POST" })).json();

function options({ timeout = 30, on_error: onError = "raise", batch_bytes: batchBytes, answer_max: answerMax, ...rest } = {}) {
  const given = { timeout: timeout * 1000, onError, batchBytes, answerMax, log: () => {}, ...rest };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

// What came of a call, by the names that expectations have, and the answer.
async function asked(url, one, more) {
  const client = new Tollhouse(url, options({ ...more, ...one.client }));
  const given = one.call === "verify" ? ["payload", one.input] : [one.input];
  let answer;
  try {
    answer = await client[NAMES[one.call] ?? one.call](...given);
  } catch (error) {
    if (!(error instanceof TollhouseError)) throw error;
    return [{ raises: error.status }];
  }
  const came = {
    decide: () => ({ ...answer, error: Boolean(answer.error), decided: Boolean(answer.id) }),
    decide_many: () => ({
      actions: answer.map((each) => each.action),
      decided: answer.map((each) => Boolean(each.id)),
      errors: answer.map((each) => Boolean(each.error)),
    }),
    feedback: () => ({ outcomes: answer.length, errors: answer.map((each) => "error" in each) }),
    challenge: () => ({ answer, given: Boolean(answer) }),
    verify: () => ({ answer }),
  };
  return [came[one.call](), answer];
}

function compare(name, came, expect) {
  assert.equal("raises" in came, "raises" in expect, `${name}: ${JSON.stringify(came)}`);
  for (const [what, value] of Object.entries(expect)) assert.deepEqual(came[what], value, `${name}: ${what}`);
  console.log(`fetch: ${name}`);
}

async function check(number, one) {
  const { url, port } = await ask(`/open/${number}`);
  const { seconds_min: least = 0, one_id: oneId, ...expect } = one.expect;
  const began = performance.now();
  const [came] = await asked(url, one);
  const seconds = (performance.now() - began) / 1000;
  const seen = await ask(`/seen/${port}`);
  // A server that hangs does so for ten minutes. Timers may end a millisecond early.
  assert(seconds < 100 && seconds > least - 0.01, `${one.name}: ${seconds} s`);
  const ids = seen.map((each) => each.ids);
  if (oneId) assert(ids[0][0] && ids.every((each) => `${each}` === `${ids[0]}`), `${one.name}: ${ids}`);
  Object.assign(came, { requests: seen.length, lines: seen.map((each) => each.lines), ids: ids.flat() });
  Object.assign(came, seen.length && { path: seen[0].path, authorization: seen[0].authorization });
  compare(one.name, came, expect);
}

// Asks a real node; then goes on asking while somebody kills it and starts it again.
async function checkNode(url, token) {
  const text = file("live.json").replaceAll("$run", crypto.randomUUID()).replaceAll("$large", "x".repeat(100_000));
  let decided = "";
  for (const number of JSON.parse(text).keys()) {
    const one = JSON.parse(text.replaceAll("$decided", decided))[number];
    const [came, answer] = await asked(url, one, { token });
    if (one.call === "decide") decided = answer?.id ?? decided;
    compare(one.name, came, one.expect);
  }
  const client = new Tollhouse(url, { token, pipeline: "web", timeout: 100_000, retries: 100_000, onError: "raise" });
  for (let number = 1; number <= 60; number++) {
    await client.decide({ "client.ip": "192.0.2.2", "http.path": `/${number}` });
    console.log(`${number} asked`);
  }
}

// What visitors get: a case, the status, and what is handed on.
const VISITS = [
  ["an answer", 200],
  ["an error of the node itself goes by on_error at once", 403],
  ["a challenge is handed on", 401, "challenge"],
  ["a pass is handed on", 200, "pass"],
  ["a wrong token is the caller's fault", 500],
];

async function visit(application, name, settings, headers) {
  const number = CASES.findIndex((one) => one.name === name);
  const { url, port } = await ask(`/open/${number}`);
  const client = new Tollhouse(url, { ...options(CASES[number].client), ...settings });
  const app = application();
  app.set("env", "test");
  app.use(express(client, (request) => (request.get("X-Asks") === "yes" ? { ip: request.ip } : null)));
  app.get("/", (request, response) => response.json({ action: request.tollhouse?.action }));
  app.use((_failure, _request, response, _next) => response.status(500).json({}));
  const server = await new Promise((done) => {
    const one = app.listen(0, "127.0.0.1", () => done(one));
  });
  try {
    const answer = await fetch(`http://127.0.0.1:${server.address().port}/`, { headers });
    return [answer.status, await answer.json(), answer.headers.get("set-cookie") ?? "", await ask(`/seen/${port}`)];
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

async function visits(application) {
  const headers = { "X-Asks": "yes", "Tollhouse-Solution": "abc", Cookie: "a=b; tollhouse-pass=p0" };
  for (const [name, wanted, handed] of VISITS) {
    const [status, body, cookie, seen] = await visit(application, name, {}, headers);
    assert.equal(status, wanted, name);
    assert.deepEqual(["challenge" in body, cookie.includes("tollhouse-pass=p1")], [handed === "challenge", handed === "pass"], name);
    assert.deepEqual(seen[0].shown, ["abc", "p0"], name);
    console.log(`express: ${name}`);
  }
  const [status, , , seen] = await visit(application, "no answer in time, deny", {}, {});
  assert.deepEqual([status, seen], [200, []], "nobody is asked about a request without an event");
}

if (FAULTS === "--node") {
  await checkNode(MODULES, TOKEN);
  process.exit(0);
}
assert.equal(refusal({ action: "shadow" }), null, "who is shadowed is not told");
for (const [number, one] of CASES.entries()) await check(number, one);
if (MODULES) await visits(createRequire(`${MODULES}/`)("express"));
console.log(`${CASES.length} cases passed`);
// Calls that were given up hang at the fault server.
process.exit(0);
