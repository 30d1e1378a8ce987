// Asks a Tollhouse node: within a deadline, again where that helps, and with a decision where no answer comes.
//
//     import { Tollhouse } from "tollhouse";
//     const tollhouse = new Tollhouse("http://127.0.0.1:8377", { onError: "allow" });
//     if ((await tollhouse.decide({ user: "ann", ip: "198.51.100.7" })).action === "reject") ...
//
// Runs wherever there is `fetch`: Node.js 18 or later, Deno, Bun, workers. Types are in tollhouse.d.ts.

const AGAIN = new Set([408, 429, 502, 503, 504]); // another try may be answered
const UNDONE = new Set([429, 503]); // nothing was done
const UNSENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"]);
const [PAUSE, PAUSE_MAX] = [50, 1000]; // milliseconds before the first try again; at most
const REFUSED = { reject: 403, throttle: 429, challenge: 401 };
const [JSON_TYPE, LINES_TYPE] = ["application/json", "application/x-ndjson"];

/** A call without the answer that was wished. `status` is the node's; 0 if no whole answer came in time. */
export class TollhouseError extends Error {
  name = "TollhouseError";
  constructor(message, status = 0, problem, cause) {
    super(message, { cause });
    Object.assign(this, { status, problem });
  }
  /** True if event, token or URL are wrong. `onError` is not asked then: strangers could send what fails. */
  get isCallers() {
    return this.status > 0 && this.status < 500 && !AGAIN.has(this.status);
  }
}

/** A client. It keeps connections: make one for the whole program. */
export class Tollhouse {
  constructor(url, options = {}) {
    const { token, pipeline, ...rest } = options;
    Object.assign(this, { timeout: 1000, onError: "allow", retries: 2, batch: 1000, batchBytes: 4 << 20, answerMax: 64 << 20, idField: "id" });
    Object.assign(this, { log: (text) => console.warn(text), fetch: (...asked) => globalThis.fetch(...asked) }, rest);
    this.url = url.replace(/\/$/, "");
    this.query = pipeline ? `?${new URLSearchParams({ pipeline })}` : "";
    this.headers = token ? { Authorization: `Bearer ${token}` } : {};
  }

  async decide(event) {
    try {
      return await this.#call("/v1/decide" + this.query, this.#line(event), JSON_TYPE, (text) => decision(object(text)));
    } catch (failure) {
      return this.#undecided(failure);
    }
  }

  async decideMany(events) {
    const decisions = [];
    for (const lines of this.#parts(Array.from(events, (event) => this.#line(event)))) {
      const answers = await this.#lines("/v1/decide/batch" + this.query, lines).catch((failure) => {
        const instead = this.#undecided(failure);
        return lines.map(() => instead);
      });
      for (const answer of answers) {
        if (!("line" in answer)) {
          decisions.push(decision(answer));
          continue;
        }
        const failure = new TollhouseError(answer.error.detail, answer.error.status, answer.error);
        // A line that is no event spoils no other, and does not pass.
        decisions.push(failure.isCallers ? { action: "reject", reasons: [], error: failure.message } : this.#undecided(failure));
      }
    }
    return decisions;
  }

  async feedback(labels) {
    const outcomes = [];
    for (const lines of this.#parts(Array.from(labels, (label) => JSON.stringify(label)))) {
      outcomes.push(...(await this.#lines("/v1/feedback/batch", lines)));
    }
    return outcomes;
  }

  challenge(event) {
    return this.#call("/v1/challenges" + this.query, JSON.stringify(event), JSON_TYPE, object);
  }

  verify(payload, event) {
    return this.#call("/v1/challenges/verify" + this.query, JSON.stringify({ payload, event }), JSON_TYPE, object, UNDONE);
  }

  // Sends until an answer can be read. With `again` not where the node may have done it already.
  async #call(path, body, type, read, again = AGAIN) {
    const deadline = performance.now() + this.timeout;
    for (let tried = 0; ; tried++) {
      let [failure, may, wait] = [null, false, 0];
      try {
        const signal = AbortSignal.timeout(Math.max(1, Math.ceil(deadline - performance.now())));
        const headers = { "Content-Type": type, ...this.headers };
        const answer = await this.fetch(this.url + path, { method: "POST", redirect: "manual", headers, body, signal });
        const text = await whole(answer, this.answerMax);
        if (answer.status === 200) return read(text);
        const problem = maybe(() => object(text));
        failure = new TollhouseError(`${path}: ${answer.status} ${problem?.detail ?? ""}`, answer.status, problem);
        [may, wait] = [again.has(answer.status), milliseconds(answer.headers.get("retry-after"))];
      } catch (error) {
        failure = new TollhouseError(`${path}: ${error.cause?.message || error.message}`, 0, undefined, error);
        may = again === AGAIN || UNSENT.has(error.cause?.code);
      }
      // All of it by chance, so that those who failed together do not come again together.
      wait = Math.max(wait, Math.random() * Math.min(PAUSE_MAX, PAUSE * 2 ** tried));
      if (!may || tried >= this.retries || performance.now() + wait >= deadline) throw failure;
      await new Promise((done) => setTimeout(done, wait));
    }
  }

  #undecided(failure) {
    if (!(failure instanceof TollhouseError) || this.onError === "raise" || failure.isCallers) throw failure;
    this.log(`tollhouse: ${this.onError}: ${failure.message}`);
    return { action: this.onError === "allow" ? "accept" : "reject", reasons: [], error: failure.message };
  }

  // The answer to each line: to halves of them where the node does not take so much at once.
  async #lines(path, lines) {
    const read = (text) => {
      const answers = text.split("\n").filter(Boolean).map(object);
      if (answers.length !== lines.length || !answers.every((one) => "line" in one || "id" in one)) throw new Error("it does not answer each line");
      return answers;
    };
    try {
      return await this.#call(path, lines.join("\n") + "\n", LINES_TYPE, read);
    } catch (failure) {
      if (failure.status !== 413) throw failure;
      if (lines.length === 1) return [{ line: 1, error: { detail: failure.message, status: 413 } }];
    }
    const half = lines.length >> 1;
    return [...(await this.#lines(path, lines.slice(0, half))), ...(await this.#lines(path, lines.slice(half)))];
  }

  *#parts(lines) {
    let [part, size] = [[], 0];
    for (const line of lines) {
      const length = new TextEncoder().encode(line).length;
      if (part.length && (part.length === this.batch || size + length >= this.batchBytes)) {
        yield part;
        [part, size] = [[], 0];
      }
      part.push(line);
      size += length + 1;
    }
    if (part.length) yield part;
  }

  // An event with an id, so that it counts once however often it is sent.
  #line(event) {
    const named = !this.idField || this.idField in event;
    return JSON.stringify(named ? event : { [this.idField]: crypto.randomUUID(), ...event });
  }
}

/** The HTTP status and JSON for a visitor who may not go on; null for who may. */
export function refusal({ action, challenge }) {
  return action in REFUSED ? { status: REFUSED[action], body: challenge ? { action, challenge } : { action } } : null;
}

/** Middleware for Express: asks where `event(request)` is one, refuses or hands a challenge on, and leaves the decision in
 * `request.tollhouse`. */
export function express(client, event) {
  return async (request, response, next) => {
    try {
      const asked = event(request);
      if (!asked) return next();
      const pass = /(?:^|;\s*)tollhouse-pass=([^;]*)/.exec(request.headers.cookie ?? "")?.[1];
      const solution = request.get("Tollhouse-Solution");
      const shown = { ...(solution && { "challenge.solution": solution }), ...(pass && { "pass.token": pass }) };
      const decision = await client.decide({ ...asked, ...shown });
      const refused = refusal(decision);
      if (refused) return response.status(refused.status).json(refused.body);
      request.tollhouse = decision;
      if (decision.pass) {
        const { token, seconds } = decision.pass;
        response.cookie("tollhouse-pass", token, { maxAge: seconds * 1000, httpOnly: true, sameSite: "lax", secure: request.secure });
      }
      next();
    } catch (failure) {
      next(failure);
    }
  };
}

async function whole(answer, max) {
  const [decoder, pieces] = [new TextDecoder(), []];
  let size = 0;
  for await (const piece of answer.body ?? []) {
    size += piece.length;
    if (size > max) throw new Error("the answer is too long");
    pieces.push(decoder.decode(piece, { stream: true }));
  }
  return pieces.join("");
}

function object(text) {
  const read = JSON.parse(text);
  if (typeof read !== "object" || read === null || Array.isArray(read)) throw new Error("it is no object");
  return read;
}

function decision(raw) {
  if (typeof raw.action !== "string") throw new Error("it has no action");
  return { ...raw, reasons: raw.reasons ?? [] };
}

const maybe = (read) => {
  try {
    return read();
  } catch {
    return undefined;
  }
};

// What Retry-After says: seconds or a date.
const milliseconds = (after) => (/^\d+$/.test(after ?? "") ? after * 1000 : Math.max(0, Date.parse(after) - Date.now()) || 0);
