// Measures in Chromium how long the challenge page's solver takes, and the worker of ALTCHA's widget beside it:
//
//   npm install --prefix target/tmp/npm altcha playwright-core
//   node crates/server/tests/challenge/measure.mjs target/tmp/npm [/usr/bin/chromium [COST...]]
//
// Prints, for each cost, microseconds a derivation (the best of three runs in turn, as others may be at work on the machine),
// and the medians that follow for prefixes of one to four hexadecimal digits: a try in 16^n succeeds.
import {readFileSync} from 'node:fs';
import {createServer} from 'node:http';
import {createRequire} from 'node:module';
import {resolve} from 'node:path';

const [packages, program = '/usr/bin/chromium', ...only] = process.argv.slice(2);
const {chromium} = createRequire(resolve(packages, 'node_modules/x.js'))('playwright-core');
const solver = readFileSync(new URL('../../src/protocol/site_gate/challenge_page/solver.js', import.meta.url), 'utf8');
const count = 'iterations = iterations + 1;';
const widget = readFileSync(resolve(packages, 'node_modules/altcha/dist/workers/pbkdf2.js'), 'utf8').replace(count, count + 'if (iterations % 10 == 0) self.postMessage(iterations);');
const solving = subtle => solver + `;onmessage = ({data}) => solve(data.challenge.parameters, ${subtle}, postMessage)`;

const server = createServer((request, answer) => answer.setHeader('content-type', 'text/html').end('<!doctype html>'));
await new Promise(listening => server.listen(0, '127.0.0.1', listening));
const browser = await chromium.launch({executablePath: program, args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking']});
const page = await browser.newPage();
await page.goto(`http://127.0.0.1:${server.address().port}`);
const measured = (code, algorithm, cost) => page.evaluate(async ([code, algorithm, cost]) => {
  const challenge = {parameters: {algorithm, cost, keyLength: 32, keyPrefix: '0'.repeat(40), nonce: '0123456789abcdef'.repeat(2), salt: 'fedcba9876543210'.repeat(2)}};
  const worker = new Worker(URL.createObjectURL(new Blob([code])));
  let first, last;
  worker.onmessage = ({data}) => {
    last = [performance.now(), data];
    first ??= last;
  };
  worker.postMessage({challenge, counterStart: 0, counterStep: 1, timeout: 1e6, type: 'work'});
  await new Promise(done => setTimeout(done, 1500));
  worker.terminate();
  return (last[0] - first[0]) / (last[1] - first[1]) * 1000;
}, [code, algorithm, cost]);

for (const [algorithm, costs] of [['PBKDF2/SHA-256', [10, 100, 200, 500, 1000, 2000, 5000, 20000]], ['SHA-256', [1, 100, 1000]]]) {
  for (const cost of only.length ? only.map(Number) : costs) {
    const ways = {'crypto.subtle': solving('crypto.subtle'), own: solving(0), ...algorithm == 'SHA-256' ? {} : {widget}};
    const best = {};
    for (let round = 0; round < 3; round++)
      for (const [way, code] of Object.entries(ways)) best[way] = Math.min(best[way] ?? Infinity, await measured(code, algorithm, cost) || Infinity);
    for (const [way, time] of Object.entries(best)) {
      const medians = [1, 2, 3, 4].map(digits => (time * 16 ** digits * Math.LN2 / 1000).toFixed(0) + ' ms');
      console.log(`${algorithm} ${cost} ${way}: ${time.toFixed(0)} us; ${medians.join(', ')}`);
    }
  }
}
await browser.close();
server.close();
