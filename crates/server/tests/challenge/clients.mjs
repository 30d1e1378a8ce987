// ALTCHA's own programs against challenges of a node: its libraries solve them, and its widget does in Chromium.
//
//   node clients.mjs '{"url": "http://127.0.0.1:1", "packages": "…", "works": {"pbkdf2": [1, 20], …}, "chromium": "/usr/bin/chromium"}'
//
// `works` names pipelines, one for each algorithm, and the work that is asked. Each asks users (`user`) for as much as their event
// says (`work`), and accepts who has solved it. Prints `verified N` for the libraries, then a line for each case of the widget;
// without `chromium` there are none.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {createServer} from 'node:http';
import {createRequire} from 'node:module';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';
import {runCases} from '../browser_cases.mjs';

const {url, packages, works, chromium: program} = JSON.parse(process.argv[2]);
const modules = join(packages, 'node_modules');
const NAMES = {pbkdf2: 'PBKDF2/SHA-256', 'sha-256': 'SHA-256', scrypt: 'SCRYPT', argon2id: 'ARGON2ID'};
const USER = 'Zoë 😀';

async function ask(path, body) {
  const answer = await fetch(url + path, {method: 'POST', headers: {'content-type': 'application/json'}, body: JSON.stringify(body)});
  assert.equal(answer.status, 200, `${path}: ${await answer.clone().text()}`);
  return answer.json();
}
const issued = (pipeline, work) => ask(`/v1/challenges?pipeline=${pipeline}`, {user: USER, work});
const verified = (pipeline, payload) => ask(`/v1/challenges/verify?pipeline=${pipeline}`, {payload, event: {user: USER}});

// What derives keys, by library and algorithm.
const lib = await import(pathToFileURL(join(modules, 'altcha/dist/lib/index.js')));
const own = await import(pathToFileURL(join(modules, 'altcha-lib/dist/esm/v2/index.js')));
const algorithm = name => import(pathToFileURL(join(modules, `altcha-lib/dist/esm/v2/algorithms/${name}.js`)));
const libraries = {
  altcha: [lib, {pbkdf2: lib.pbkdf2, 'sha-256': lib.sha, scrypt: lib.scrypt, argon2id: lib.argon2id}],
  'altcha-lib': [own, {
    pbkdf2: await algorithm('pbkdf2'), 'sha-256': await algorithm('sha'), scrypt: await algorithm('scrypt'),
    // It asks Node for it, which has it from 24.7 on.
    ...'argon2' in await import('node:crypto') ? {argon2id: await algorithm('argon2id')} : {},
  }],
};

let count = 0;
for (const [library, [{solveChallenge}, functions]] of Object.entries(libraries))
  for (const [pipeline, {deriveKey}] of Object.entries(functions))
    for (const work of works[pipeline]) {
      const challenge = await issued(pipeline, work);
      assert.equal(challenge.parameters.algorithm, NAMES[pipeline]);
      const solution = await solveChallenge({challenge, deriveKey});
      const payload = Buffer.from(JSON.stringify({challenge, solution})).toString('base64');
      const said = `${library}, ${pipeline}, ${work}`;
      const first = await verified(pipeline, payload);
      assert.equal(first.solved, true, `${said}: ${JSON.stringify(first)}`);
      assert(first.pass.token, said);
      assert.deepEqual(await verified(pipeline, payload), {solved: false, refused: 'used'}, said);
      count++;
    }
console.log(`verified ${count}`);
if (!program) process.exit();

// An application with a form that has the widget: as a page that is given a challenge, or the address of one.
const page = (widget, pipeline) => `<!doctype html><html lang=en><title>Form</title>
<form method=post action="/send?${pipeline}">${widget}<button>Send</button></form>
<script type=module>
  import '/altcha.js';
  // As its documentation says: these two are not in its own file.
  for (const [name, file] of [['ARGON2ID', 'argon2id'], ['SCRYPT', 'scrypt']]) $altcha.algorithms.set(name, () => new Worker('/' + file + '.js'));
</script>`;
const attribute = value => JSON.stringify(value).replaceAll('&', '&amp;').replaceAll('"', '&quot;');
const files = {'/altcha.js': 'main/altcha.js', '/argon2id.js': 'workers/argon2id.js', '/scrypt.js': 'workers/scrypt.js'};
const steps = {
  // The first of the works is enough where each case has a browser to open.
  '/asks': async pipeline => page(`<altcha-widget challenge="/challenge?${pipeline}"></altcha-widget>`, pipeline),
  '/challenge': async pipeline => issued(pipeline, works[pipeline][0]),
  '/given': async pipeline => {
    const decision = await ask(`/v1/decide?pipeline=${pipeline}`, {user: USER, work: works[pipeline][0]});
    assert.equal(decision.action, 'challenge');
    return page(`<altcha-widget challenge="${attribute(decision.challenge)}"></altcha-widget>`, pipeline);
  },
  '/send': async (pipeline, form) => ask(`/v1/decide?pipeline=${pipeline}`, {user: USER, work: 1, 'challenge.solution': form.get('altcha')}),
};
const site = createServer(async (request, answer) => {
  try {
    const {pathname, search} = new URL(request.url, 'http://site');
    let body = '';
    for await (const part of request) body += part;
    if (files[pathname]) {
      answer.setHeader('content-type', 'text/javascript').end(readFileSync(join(modules, 'altcha/dist', files[pathname])));
    } else if (steps[pathname]) {
      const said = await steps[pathname](search.slice(1), new URLSearchParams(body));
      const isPage = typeof said == 'string';
      answer.setHeader('content-type', isPage ? 'text/html; charset=utf-8' : 'application/json').end(isPage ? said : JSON.stringify(said));
    } else {
      answer.writeHead(404).end();
    }
  } catch (error) {
    answer.writeHead(500).end(String(error.stack));
  }
});
await new Promise(listening => site.listen(0, '127.0.0.1', listening));
const address = `http://127.0.0.1:${site.address().port}`;

async function solves(browser, path) {
  const tab = await browser.newPage();
  tab.setDefaultTimeout(60_000);
  const faults = [];
  tab.on('pageerror', error => faults.push(String(error)));
  await tab.goto(address + path);
  // By keyboard: its own mark lies over the box.
  await tab.locator('altcha-widget input[type=checkbox]').press('Space');
  await tab.waitForFunction(() => document.querySelector('input[name=altcha]')?.value);
  await tab.locator('button').click();
  await tab.waitForURL('**/send?*');
  const decision = JSON.parse(await tab.locator('body').innerText());
  assert.deepEqual(faults, []);
  assert.equal(decision.action, 'accept', JSON.stringify(decision));
  assert(decision.pass.token);
  await tab.close();
}
const cases = {};
for (const pipeline of Object.keys(NAMES)) {
  cases[`the widget fetches and solves ${pipeline}`] = browser => solves(browser, `/asks?${pipeline}`);
  cases[`the widget solves ${pipeline} of a decision`] = browser => solves(browser, `/given?${pipeline}`);
}
const {chromium} = createRequire(join(modules, 'x.js'))('playwright-core');
const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'];
const passed = await runCases(cases, () => chromium.launch({executablePath: program, headless: true, args, chromiumSandbox: false}));
site.close();
process.exit(passed ? 0 : 1);
