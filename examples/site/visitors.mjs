// Visitors with a browser: honest ones with and without scripts, some by keyboard and by what a screen reader is told, and a
// spammer who drives a headless Chromium.
//
//   node visitors.mjs '{"chromium": "/usr/bin/chromium", "packages": "…/node_modules", "site": "http://127.0.0.1:1", "seed": "1",
//                       "outbox": "…", "who": "honest", "sessions": 40, "together": 3, "busy": 5}'
//
// `who` is `honest` or `spammer`. When standard input ends, `busy` more come one after the other, while the site says that it is
// busy. Prints a line of JSON for each session, and one with the processor seconds of the browser's processes at the end.
import {readdirSync, readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {join} from 'node:path';

const {chromium: program, packages, site, seed, outbox, who, sessions, together, busy: afterwards} = JSON.parse(process.argv[2]);
const {chromium} = createRequire(join(packages, 'x.js'))('playwright-core');
const PATIENCE = 120_000;

// Chance from a seed: xmur3 makes the state, mulberry32 goes on from it.
function seeded(text) {
  let h = 1779033703 ^ text.length;
  for (const sign of text) {
    h = Math.imul(h ^ sign.charCodeAt(0), 3432918353);
    h = h << 13 | h >>> 19;
  }
  let state = Math.imul(h ^ h >>> 16, 2246822507) >>> 0;
  const next = () => {
    state = state + 0x6d2b79f5 | 0;
    let t = Math.imul(state ^ state >>> 15, 1 | state);
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t;
    return ((t ^ t >>> 14) >>> 0) / 4294967296;
  };
  const below = count => Math.floor(next() * count);
  return {next, below, between: (from, to) => from + below(to - from + 1), choice: list => list[below(list.length)], chance: share => next() < share};
}
const wait = ms => new Promise(done => setTimeout(done, ms));
const address = luck => [luck.choice([24, 46, 62, 77, 81, 89, 91, 109, 151, 178]), luck.below(256), luck.below(256), luck.between(1, 254)].join('.');

const FIRST = ['Anna', 'Bernd', 'Chiara', 'Daniel', 'Elena', 'Frank', 'Giulia', 'Hannah', 'Igor', 'Julia', 'Katrin', 'Luca', 'Marta', 'Nils', 'Oana', 'Pedro', 'Rosa', 'Simon', 'Tina', 'Uwe'];
const LAST = ['Meyer', 'Smith', 'Novak', 'Rossi', 'Dubois', 'Garcia', 'Larsen', 'Kowalski', 'Silva', 'Jensen', 'Horvat', 'Moreau', 'Brown', 'Weber', 'Keller', 'Ferrari', 'Lopez', 'Berg', 'Nagy', 'Popescu'];
const MAIL = ['gmail.com', 'outlook.com', 'gmx.de', 'web.de', 'posteo.de', 'icloud.com', 'orange.fr', 'libero.it', 'wp.pl'];
const LOCALES = ['en-US', 'de-DE', 'fr-FR', 'it-IT', 'es-ES', 'pl-PL', 'pt-PT'];
const SUBJECTS = ['The path along the river', 'The hut above the lake', 'Our second evening here', 'Breakfast on the terrace', 'The old bridge', 'The museum of clocks', 'The ferry in the morning', 'A thunderstorm in July'];
const OPINIONS = ['was the best part of our week', 'made the children quiet for once', 'is worth the climb', 'was closed, but the cook opened it for us', 'reminded my father of his youth', 'should be in every guide', 'was cold and wonderful'];
const ENDS = ['Many thanks to all!', 'We come back in spring.', 'Bring a warm jumper.', 'The bus leaves at ten past.', 'Somebody please mend the bell.', 'Greetings from home.'];

class Visit {
  constructor(page, luck, kind) {
    Object.assign(this, {page, luck, kind, asked: 0, decisions: [], solved: []});
    page.on('response', response => {
      const handed = response.headers()['tollhouse-challenge'];
      if (![401, 403, 429].includes(response.status())) return;
      this.asked++;
      if (handed) this.decisions.push(JSON.parse(Buffer.from(handed, 'base64')).id);
    });
    page.on('request', request => {
      if (request.method() != 'POST' || !request.url().endsWith('/.tollhouse/verify')) return;
      // What the page itself says of the time that it took.
      const payload = new URLSearchParams(request.postData() ?? '').get('altcha');
      if (payload) this.solved.push(JSON.parse(Buffer.from(payload, 'base64')).solution.time);
    });
  }

  // Waits until the site's own page is there. Returns false where a form has to be sent again.
  async arrive() {
    const until = Date.now() + PATIENCE;
    // Between two pages there is a moment with neither.
    for (let nothing = 0;; nothing++) {
      let found;
      try {
        await this.page.waitForLoadState('load');
        found = await this.page.evaluate(() => document.querySelector('header nav') ? 'site'
          : document.querySelector('#th-go:not([hidden])') && JSON.parse(document.querySelector('#th-data').textContent).form ? 'form'
          : document.querySelector('#th-data') ? 'asked' : 'refused');
      } catch (error) {
        // It went on meanwhile.
        if (Date.now() > until) throw error;
        found = 'asked';
      }
      if (found == 'site') return true;
      if (found == 'form') {
        await this.page.locator('#th-go').click();
        await this.page.locator('header nav').waitFor();
        return false;
      }
      if (found != 'refused') nothing = 0;
      else if (nothing > 60) throw Error(`refused: ${await this.page.locator('body').innerText()}`);
      // Without scripts a form has to be opened again by hand.
      if (this.kind == 'without scripts' && this.sending && await this.page.locator('#th-data').count()) {
        await wait(7000);
        await this.page.goto(site + this.sending);
        await this.page.locator('header nav').waitFor();
        return false;
      }
      if (Date.now() > until) throw Error('is asked, and gets no further');
      await wait(50);
    }
  }

  think(least, most) {
    return wait(this.luck.between(least, most));
  }

  async open(path) {
    await this.page.goto(site + path);
    await this.arrive();
  }

  // Follows a link by its name. By keyboard: the name is found in what a screen reader is told, and the tabulator leads there.
  async follow(role, name) {
    if (this.kind == 'keyboard') {
      const tree = await this.page.locator('body').ariaSnapshot();
      if (!tree.includes(name)) throw Error(`nobody is told of ${name}`);
      await this.focus(element => (element.textContent || '').trim(), name);
      await this.leave(() => this.page.keyboard.press('Enter'));
    } else await this.leave(() => this.page.getByRole(role, {name, exact: true}).first().click());
    await this.arrive();
  }

  // Does what leads to another page, and waits until that has begun.
  leave(action) {
    return Promise.all([this.page.waitForNavigation({waitUntil: 'commit'}), action()]);
  }

  async focus(read, wanted) {
    for (let tries = 0; tries < 80; tries++) {
      await this.page.keyboard.press('Tab');
      const at = await this.page.evaluate(`(${read})(document.activeElement)`);
      if (at == wanted) return;
    }
    throw Error(`the tabulator does not lead to ${wanted}`);
  }

  async fill(label, text) {
    if (this.kind == 'keyboard') {
      await this.focus(element => (element.labels?.[0]?.textContent || '').trim(), label);
      await this.page.keyboard.type(text, {delay: this.luck.between(5, 15)});
    } else await this.page.getByLabel(label).fill(text);
  }

  // Fills in a form and sends it; once more if it was kept from the site by a challenge.
  async send(path, fields, button) {
    for (let tries = 0; tries < 3; tries++) {
      for (const [label, text] of fields) await this.fill(label, text);
      await this.think(3200, 4500);
      this.sending = path;
      if (this.kind == 'keyboard') {
        await this.focus(element => (element.textContent || '').trim(), button);
        await this.leave(() => this.page.keyboard.press('Enter'));
      } else await this.leave(() => this.page.getByRole('button', {name: button}).click());
      const arrived = await this.arrive();
      this.sending = undefined;
      if (arrived) return;
      // As the browser kept it, or as it has to be written again.
      if (!(await this.page.getByRole('button', {name: button}).count())) await this.open(path);
      if (this.kind == 'keyboard') for (const [label] of fields) await this.page.getByLabel(label).fill('');
    }
    throw Error(`${path} is never delivered`);
  }

  heading() {
    return this.page.locator('h1').first().textContent();
  }

  async read() {
    for (let count = this.luck.between(1, 5); count; count--) {
      const names = (await this.page.getByRole('listitem').getByRole('link').allTextContents());
      if (names.length) await this.follow('link', this.luck.choice(names));
      await this.think(150, 700);
      if (this.luck.chance(.3) && await this.page.getByRole('link', {name: 'The entry before'}).count()) await this.follow('link', 'The entry before');
      await this.follow('link', 'All entries');
      if (this.luck.chance(.3)) await this.follow('link', 'Older entries');
    }
  }

  async signUp(name, email) {
    await this.follow('link', 'Sign up');
    await this.send('/sign-up', [['Name', name], ['Mail address', email]], 'Make my account');
    if ((await this.heading()) == 'One more step') {
      this.asked++;
      const mail = readFileSync(outbox, 'utf8').trim().split('\n').map(line => JSON.parse(line)).filter(mail => mail.to == email.toLowerCase());
      await this.page.getByLabel('The code that we have sent you').fill(mail.at(-1).code);
      await this.leave(() => this.page.getByRole('button', {name: 'Confirm'}).click());
      await this.arrive();
    }
    if ((await this.heading()) != 'Welcome!') throw Error(`no account: ${await this.heading()}`);
  }

  async write(text) {
    await this.follow('link', 'Write an entry');
    await this.send('/write', [['Your entry', text]], 'Publish my entry');
    if ((await this.heading()) != 'Your entry is in the book') throw Error(`not in the book: ${await this.heading()}`);
  }
}

const KINDS = ['with scripts', 'without scripts', 'keyboard', 'with scripts', 'with scripts'];

async function honest(browser, number, busy) {
  const luck = seeded(`${seed} ${busy ? 'busy' : 'honest'} ${number}`), kind = KINDS[number % KINDS.length];
  // Every fifth comes from one of three offices.
  const ip = luck.chance(.2) && !busy ? `198.51.${luck.between(1, 3)}.7` : address(luck);
  const locale = luck.choice(LOCALES);
  const context = await browser.newContext({
    javaScriptEnabled: kind != 'without scripts', locale, userAgent: agent(browser),
    extraHTTPHeaders: {'X-Actor-Address': ip, 'X-Actor': 'honest', ...(busy ? {'X-Actor-Load': '2'} : {})},
  });
  context.setDefaultTimeout(PATIENCE);
  const visit = new Visit(await context.newPage(), luck, kind);
  const began = Date.now();
  let failed = null, wanted = busy ? 'read' : luck.choice(['read', 'read', 'account', 'entry', 'entry']);
  try {
    await visit.open(luck.chance(.7) ? '/' : `/entry/${luck.between(1, 200)}`);
    visit.arrived = Date.now() - began;
    if (!(await visit.page.getByRole('listitem').count())) await visit.follow('link', 'All entries');
    await visit.read();
    if (wanted != 'read') {
      const name = `${luck.choice(FIRST)} ${luck.choice(LAST)}`;
      const mailbox = name.toLowerCase().replace(' ', luck.choice(['.', '', '_'])) + (luck.chance(.4) ? luck.between(60, 99) : '');
      await visit.signUp(name, `${mailbox}@${luck.choice(MAIL)}`);
      if (wanted == 'entry') await visit.write(`${luck.choice(SUBJECTS)} ${luck.choice(OPINIONS)}. ${luck.choice(SUBJECTS)} ${luck.choice(OPINIONS)}, too. ${luck.choice(ENDS)}`);
    }
  } catch (error) {
    failed = String(error).split('\n')[0];
  }
  await context.close().catch(() => {});
  return {kind, wanted, asked: visit.asked, decisions: visit.decisions, solved: visit.solved, arrived: visit.arrived, failed};
}

async function spammer(browser, number) {
  const luck = seeded(`${seed} spammer ${number}`), nets = seeded(`${seed} nets`);
  const net = [address(nets), address(nets), address(nets), address(nets)][number % 4].replace(/[.][0-9]+$/, '');
  const context = await browser.newContext({
    locale: 'en-US', userAgent: agent(browser),
    extraHTTPHeaders: {'X-Actor-Address': `${net}.${luck.between(1, 254)}`, 'X-Actor': 'spammer, headless browser'},
  });
  context.setDefaultTimeout(PATIENCE);
  const visit = new Visit(await context.newPage(), luck, 'with scripts');
  visit.think = () => wait(luck.between(300, 900));
  let failed = null, attempts = 0;
  const text = () => `${luck.choice(['Earn', 'Make', 'Get'])} ${luck.between(100, 999)} euro a day from home, ${luck.choice(['no risk', 'no boss', 'start now'])}: https://${luck.choice(['cash', 'quick', 'rich'])}-${luck.below(3)}.example/${luck.below(10000)}`;
  try {
    await visit.open('/sign-up');
    const name = `${luck.choice(FIRST)} ${luck.choice(LAST)}`;
    await visit.signUp(name, `${name.toLowerCase().replace(' ', '.')}${luck.between(60, 99)}@${luck.choice(MAIL)}`).catch(error => { failed = String(error).split('\n')[0]; });
  } catch (error) {
    failed = String(error).split('\n')[0];
  }
  for (let entry = 0; entry < 2; entry++) {
    attempts++;
    if (!failed) await visit.write(text()).catch(() => {});
  }
  await context.close().catch(() => {});
  return {kind: 'spammer', attempts, asked: visit.asked, decisions: visit.decisions, solved: visit.solved, failed};
}

// The browser as people have it: a headless one would say so.
const agent = browser => `Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/${browser.version().split('.')[0]}.0.0.0 Safari/537.36`;

// Processor seconds of a process and of all that it started, the ended ones included.
function processorSeconds(root) {
  const processes = new Map();
  for (const id of readdirSync('/proc').filter(name => /^[0-9]+$/.test(name))) {
    try {
      const fields = readFileSync(`/proc/${id}/stat`, 'utf8').replace(/^.*\) /s, '').split(' ');
      processes.set(+id, {parent: +fields[1], ticks: fields.slice(11, 15).reduce((sum, ticks) => sum + +ticks, 0)});
    } catch { /* It has ended meanwhile. */ }
  }
  const below = id => {
    for (let steps = 0; steps < 20 && processes.has(id); steps++) {
      if (id == root) return true;
      id = processes.get(id).parent;
    }
    return false;
  };
  let ticks = 0;
  for (const [id, process] of processes) if (below(id)) ticks += process.ticks;
  return ticks / 100;
}

// Hashes that a page of this browser calculates in a processor second as Anubis' page does: one after the other in a worker.
async function hashRate(browser) {
  const page = await (await browser.newContext()).newPage();
  await page.goto(site + '/health');
  const began = processorSeconds(root);
  const count = await page.evaluate(async () => {
    const code = `onmessage = async () => {
      const encoder = new TextEncoder(), text = 'a'.repeat(64);
      let count = 0;
      for (; count < 30000; count++) await crypto.subtle.digest('SHA-256', encoder.encode(text + count));
      postMessage(count);
    }`;
    const worker = new Worker(URL.createObjectURL(new Blob([code], {type: 'text/javascript'})));
    worker.postMessage(0);
    return new Promise(done => { worker.onmessage = ({data}) => done(data); });
  });
  const rate = count / Math.max(processorSeconds(root) - began, .01);
  await page.context().close();
  return rate;
}

const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage'];
const server = await chromium.launchServer({executablePath: program, headless: true, args, chromiumSandbox: false, timeout: PATIENCE});
const end = async () => { await server.close().catch(() => server.kill()); process.exit(1); };
process.on('SIGTERM', end);
process.on('SIGINT', end);
const browser = await chromium.connect(server.wsEndpoint(), {timeout: PATIENCE});
const say = line => process.stdout.write(JSON.stringify(line) + '\n');
const root = server.process().pid, started = processorSeconds(root);
let next = 0;
await Promise.all([...Array(together)].map(async () => {
  while (next < sessions) {
    const number = next++;
    say(await (who == 'spammer' ? spammer(browser, number) : honest(browser, number, false)));
  }
}));
const processor = processorSeconds(root) - started;
if (afterwards) {
  await new Promise(done => process.stdin.on('end', done).resume());
  for (let number = 0; number < afterwards; number++) say(await honest(browser, number, true));
}
say({end: true, processor, hashRate: afterwards ? await hashRate(browser) : undefined});
await browser.close();
await server.close();
process.exit(0);
