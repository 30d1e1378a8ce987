// Runs cases in a browser, one after the other, and prints a line for each: `ok: NAME`, or `failed: NAME: STACK`.
//
//   process.exit(await runCases(cases, () => chromium.launch({…}), only) ? 0 : 1)
//
// A case is a function of the browser. `only` leaves out the cases whose names do not contain it.
import assert from 'node:assert/strict';
import {isDeepStrictEqual} from 'node:util';

// The driver itself waits without an end for what it evaluates in a page, and for a page to close.
const CASE_WITHIN_SECONDS = 180, SEEN_WITHIN_SECONDS = 30, CLOSE_WITHIN_SECONDS = 10;

function within(seconds, work) {
  let timer;
  const over = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it was not over within ${seconds} s`)), seconds * 1000);
  });
  return Promise.race([work, over]).finally(() => clearTimeout(timer));
}

// Looks again and again, as what a page does after a key, a click or a change of colours may come later. Gives what it saw last.
//
//   assert.notEqual(await until(() => row.innerText(), text => text !== before), before);
export async function until(look, holds) {
  for (const end = Date.now() + SEEN_WITHIN_SECONDS * 1000; ;) {
    const seen = await look();
    if (holds(seen) || Date.now() > end) return seen;
    await new Promise(resolve => setTimeout(resolve, 50));
  }
}
export const becomes = async (look, wanted, what) => assert.deepEqual(await until(look, seen => isDeepStrictEqual(seen, wanted)), wanted, what);

const close = browser => within(CLOSE_WITHIN_SECONDS, browser.close()).catch(() => {});

export async function runCases(cases, launch, only) {
  let browser = await launch();
  const failed = [];
  for (const [name, run] of Object.entries(cases)) {
    if (only && !name.includes(only)) continue;
    try {
      await within(CASE_WITHIN_SECONDS, run(browser));
      console.log(`ok: ${name}`);
    } catch (error) {
      failed.push(`failed: ${name}: ${error.stack}`);
      console.log(failed.at(-1));
      // What is left of the case would go on beside the next one.
      await close(browser);
      browser = await launch();
    }
  }
  await close(browser);
  // Once more where a long list of those that passed does not hide them.
  console.error(failed.join('\n'));
  return !failed.length;
}
