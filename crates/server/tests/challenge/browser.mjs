// Drives a real Chromium over a site that asks with the challenge page.
//
//   node browser.mjs '{"chromium": "/usr/bin/chromium", "packages": "…", "pictures": null, "sites": {"ordinary": "http://127.0.0.1:1", …}}'
//
// Every site answers what comes without a pass with the page, `/form` with a form that posts to `/comment`, and what has a
// pass with a page titled "Site". They differ:
//
//   ordinary   passes whoever solves the challenge, or without scripts waits and loads the mark
//   endless    has a challenge that nobody solves
//   form       asks on /comment as `endless` does
//   forgetful  accepts the solution and gives no pass
//   refusing   answers each solution with 403, gone with 410
//   hostile    has a challenge page whose values are full of markup
//
// Prints a line for each case, and ends with 1 if one has failed.
import assert from 'node:assert/strict';
import {mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {becomes, runCases} from '../browser_cases.mjs';

const {chromium: program, packages, pictures, sites, only} = JSON.parse(process.argv[2]);
const require = createRequire(join(packages, 'node_modules/x.js'));
const {chromium} = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

const LANGUAGES = ['en', 'ar', 'de', 'es', 'fr', 'it', 'ja', 'pt', 'ru', 'zh'];
const PHONE = {width: 390, height: 844}, WIDE = {width: 1280, height: 800};
const patience = 60_000;
const profile = mkdtempSync(join(tmpdir(), 'challenge-page-'));
const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--host-resolver-rules=MAP plain.test 127.0.0.1'];
const launch = name => chromium.launchPersistentContext(join(profile, name), {executablePath: program, headless: true, args, chromiumSandbox: false, viewport: null});

// A page that notes what no page may do.
async function opened(browser, options = {}, script) {
  const context = await browser.newContext({viewport: WIDE, ...options});
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  const faults = [], requests = [];
  page.on('console', message => {
    // Chromium reports the status of the page itself and of the site's icon.
    if (!(message.type() == 'error' && message.text().startsWith('Failed to load resource'))) faults.push(`console: ${message.text()}`);
  });
  page.on('pageerror', error => faults.push(`error: ${error}`));
  page.on('request', request => requests.push(request));
  if (script) await context.addInitScript(script);
  await context.addInitScript(() => addEventListener('securitypolicyviolation', event => console.log(`policy: ${event.violatedDirective} ${event.blockedURI}`)));
  page.finish = async () => {
    const hosts = new Set(requests.map(request => new URL(request.url())).filter(url => !['blob:', 'data:'].includes(url.protocol)).map(url => url.host));
    assert.deepEqual(faults, []);
    assert.equal(hosts.size, 1, `requests to ${[...hosts]}`);
    await context.close();
  };
  page.seen = requests;
  return page;
}
const text = (page, name) => page.locator('#th-' + name).textContent();
const settled = (page, name) => page.waitForFunction(name => {
  // Until then the data may be there in part.
  if (document.readyState == 'loading') return false;
  const data = JSON.parse(document.getElementById('th-data').textContent);
  return document.getElementById('th-status').textContent == data.text[name];
}, name);
const arrived = page => page.waitForFunction(() => document.title == 'Site');
async function accessible(page, what, rules = {}) {
  await page.evaluate(axe);
  const {violations, passes} = await page.evaluate(rules => axe.run(document, {rules}), rules);
  assert(passes.length > 10, `${what}: axe has looked at nothing`);
  assert.deepEqual(violations.map(({id, nodes}) => `${what}: ${id}: ${nodes.map(node => node.html)}`), []);
}
async function picture(page, name) {
  if (!pictures) return;
  mkdirSync(pictures, {recursive: true});
  // A challenge that nobody solves would stand at its beginning.
  await page.evaluate(() => {
    const bar = document.getElementById('th-bar');
    bar.setAttribute('value', .45);
    Object.defineProperty(bar, 'value', {configurable: true, set() {}});
    return new Promise(done => setTimeout(done, 400));
  });
  await page.screenshot({path: join(pictures, name + '.png')});
}

const cases = {
  async 'solves and comes back to the very URL'(browser) {
    const page = await opened(browser);
    const url = sites.ordinary + '/articles/7?q=a%20b&c=%3Cd%3E#part';
    const first = await page.goto(url);
    assert([401, 403, 503].includes(first.status()));
    await arrived(page);
    assert.equal(page.url(), url);
    assert.equal(await page.evaluate(() => history.length), 2);
    await page.finish();
  },
  async 'is asked once'(browser) {
    const page = await opened(browser);
    await page.goto(sites.ordinary + '/');
    await arrived(page);
    const again = await page.goto(sites.ordinary + '/another');
    assert.equal(again.status(), 200);
    await page.finish();
  },
  async 'solves over plain HTTP, where there is no crypto.subtle'(browser) {
    const page = await opened(browser);
    await page.goto(sites.ordinary.replace('127.0.0.1', 'plain.test') + '/');
    await arrived(page);
    assert.equal(await page.evaluate(() => isSecureContext), false);
    await page.finish();
  },
  async 'solves without workers'(browser) {
    const page = await opened(browser, {}, () => { delete window.Worker; });
    await page.goto(sites.ordinary + '/');
    await arrived(page);
    await page.finish();
  },
  async 'solves without workers over plain HTTP'(browser) {
    const page = await opened(browser, {}, () => { window.Worker = class { constructor() { setTimeout(() => this.onerror()); } postMessage() {} }; });
    await page.goto(sites.ordinary.replace('127.0.0.1', 'plain.test') + '/');
    await arrived(page);
    await page.finish();
  },
  async 'leaves the page responsive'(browser) {
    for (const [host, script] of [['127.0.0.1', () => {}], ['plain.test', () => {}], ['plain.test', () => { delete window.Worker; }]]) {
      const page = await opened(browser, {}, script);
      await page.goto(sites.endless.replace('127.0.0.1', host) + '/');
      // The challenge has no end: that frames and timers go on is all that can end this.
      await page.evaluate(() => new Promise(done => {
        let frames = 0, timers = 0;
        const check = () => frames > 20 && timers > 20 && done();
        const frame = () => { frames++; check(); requestAnimationFrame(frame); };
        const timer = () => { timers++; check(); setTimeout(timer); };
        frame();
        timer();
      }));
      await page.waitForFunction(() => document.getElementById('th-bar').value > 0 || document.getElementById('th-status').textContent);
      await page.finish();
    }
  },
  async 'sends back to the form, which still has what was written'(browser) {
    const page = await opened(browser);
    await page.goto(sites.form + '/form');
    await page.fill('input[name=text]', 'my long comment');
    await page.click('button');
    await settled(page, 'form_done');
    await page.waitForFunction(() => document.activeElement.id == 'th-go');
    await page.keyboard.press('Enter');
    await page.waitForURL(sites.form + '/form');
    assert.equal(await page.inputValue('input[name=text]'), 'my long comment');
    await page.click('button');
    await arrived(page);
    assert.match(await page.textContent('main'), /POST .*my\+long\+comment/);
    await page.finish();
  },
  async 'needs no scripts'(browser) {
    const page = await opened(browser, {javaScriptEnabled: false});
    // The page may be looked at for longer than it waits.
    let goOn;
    const looked = new Promise(resolve => { goOn = resolve; });
    await page.route('**/.tollhouse/continue?*', route => looked.then(() => route.continue()));
    await page.goto(sites.ordinary + '/articles/7?q=1');
    assert.match(await page.locator('body').innerText(), /goes on by itself/);
    assert.doesNotMatch(await page.locator('body').innerText(), /cannot solve/);
    goOn();
    await page.waitForURL(sites.ordinary + '/articles/7?q=1', {waitUntil: 'load'});
    await page.getByText('Here you are').waitFor();
    assert.equal(page.url(), sites.ordinary + '/articles/7?q=1');
    const mark = page.seen.find(request => request.url().includes('mark'));
    assert.equal(mark?.resourceType(), 'image');
    await page.finish();
  },
  async 'sends back to the form without scripts'(browser) {
    const page = await opened(browser, {javaScriptEnabled: false});
    await page.goto(sites.ordinary + '/form');
    await page.fill('input[name=text]', 'my long comment');
    await page.click('button');
    await page.getByText('Please go back and send the form again').waitFor();
    assert.doesNotMatch(await page.locator('body').innerText(), /cannot solve|not been delivered/);
    await page.goto(sites.ordinary + '/form');
    await page.click('button');
    await page.getByText('Here you are: POST').waitFor();
    await page.finish();
  },
  async 'says that scripts are needed, where there is no way without'(browser) {
    const page = await opened(browser, {javaScriptEnabled: false});
    await page.goto(sites.endless + '/');
    assert.match(await page.locator('body').innerText(), /Please allow scripts/);
    await page.finish();
  },
  async 'works by keyboard'(browser) {
    const page = await opened(browser);
    await page.goto(sites.refusing + '/');
    await settled(page, 'refused');
    await page.keyboard.press('Tab');
    await becomes(() => page.evaluate(() => document.activeElement.id), 'th-go');
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.equal(outline, 'solid');
    await page.keyboard.press('Tab');
    await becomes(() => page.evaluate(() => document.activeElement.tagName), 'A');
    await page.keyboard.press('Shift+Tab');
    const again = page.waitForEvent('load');
    await page.keyboard.press('Enter');
    await again;
    await settled(page, 'refused');
    await page.finish();
  },
  async 'has a tree for screen readers'(browser) {
    const page = await opened(browser);
    await page.goto(sites.endless + '/');
    await settled(page, 'working');
    const tree = await page.locator('body').ariaSnapshot();
    for (const part of [/- main/, /- heading "One moment, please" \[level=1\]/, /- status: Your browser is working/, /- progressbar "Progress"/, /- link "owner@site\.example"/]) assert.match(tree, part);
    await page.finish();
  },
  async 'passes axe in every language, light and dark, on a phone and wide'(browser) {
    for (const language of LANGUAGES) {
      const page = await opened(browser, {extraHTTPHeaders: {'accept-language': language}});
      await page.goto(sites.endless + '/');
      await settled(page, 'working');
      assert.equal(await page.evaluate(() => document.documentElement.lang), language);
      for (const colorScheme of ['light', 'dark']) for (const size of [PHONE, WIDE]) {
        await page.emulateMedia({colorScheme});
        await page.setViewportSize(size);
        await accessible(page, `${language} ${colorScheme} ${size.width}`);
        await becomes(() => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true, `${language} ${size.width}: wider than the window`);
        await picture(page, `${language}-${colorScheme}-${size.width}`);
      }
      await page.finish();
    }
  },
  async 'passes axe when it has failed, on forms and in forced colours'(browser) {
    for (const colorScheme of ['light', 'dark']) {
      const page = await opened(browser, {colorScheme});
      await page.goto(sites.refusing + '/');
      await settled(page, 'refused');
      await accessible(page, `refused ${colorScheme}`);
      await picture(page, `refused-${colorScheme}`);
      await page.emulateMedia({forcedColors: 'active'});
      await picture(page, `forced-${colorScheme}`);
      await accessible(page, `forced colours ${colorScheme}`);
      await page.finish();
      const form = await opened(browser, {colorScheme});
      await form.goto(sites.form + '/form');
      await form.click('button');
      await settled(form, 'form_done');
      await accessible(form, `form ${colorScheme}`);
      await picture(form, `form-${colorScheme}`);
      await form.finish();
    }
  },
  async 'passes axe as it is without scripts'(browser) {
    for (const [name, site] of [['plain', sites.ordinary], ['none', sites.endless]]) for (const colorScheme of ['light', 'dark']) {
      const page = await opened(browser, {colorScheme});
      // axe is a script: it looks at what a browser without them would show. That the page goes on by itself, which axe
      // objects to, is the way itself; a link does the same by hand.
      const answer = await page.context().request.get(site + '/');
      const still = (await answer.text()).replace(/<script.*?<\/script>/gs, '').replace(/<\/?noscript>/g, '').replace(/<meta http-equiv="refresh"[^>]*>/, '').replace(/url\("[^"]*"\)/, 'none');
      assert.doesNotMatch(still, /<\/?(no)?script/);
      await page.setContent(still);
      assert.match(await page.locator('body').innerText(), /runs no scripts/);
      await accessible(page, `without scripts ${colorScheme}`);
      await picture(page, `${name}-${colorScheme}`);
      await page.context().close();
    }
  },
  async 'moves nothing for who wants it still'(browser) {
    const page = await opened(browser, {reducedMotion: 'reduce'});
    await page.goto(sites.endless + '/');
    await settled(page, 'working');
    assert.deepEqual(await page.evaluate(() => document.getAnimations().length), 0);
    await page.finish();
  },
  async 'stops when the pass is never kept'(browser) {
    const page = await opened(browser);
    await page.goto(sites.forgetful + '/');
    await settled(page, 'repeated');
    assert.equal(page.seen.filter(request => request.method() == 'POST').length, 3);
    const again = page.waitForEvent('load');
    await page.locator('#th-go').click();
    await again;
    await settled(page, 'repeated');
    assert.equal(page.seen.filter(request => request.method() == 'POST').length, 4);
    await page.finish();
  },
  async 'asks for a new challenge a bounded number of times'(browser) {
    const page = await opened(browser);
    await page.goto(sites.gone + '/');
    await settled(page, 'repeated');
    assert.equal(page.seen.filter(request => request.method() == 'POST').length, 3);
    await page.finish();
  },
  async 'says that the site cannot be reached'(browser) {
    const page = await opened(browser);
    await page.route('**/verify', route => route.abort());
    await page.goto(sites.ordinary + '/');
    await settled(page, 'offline');
    assert.equal(await text(page, 'go'), 'Try again');
    await page.unroute('**/verify');
    await page.locator('#th-go').click();
    await arrived(page);
    await page.finish();
  },
  async 'says that cookies are refused'() {
    const folder = join(profile, 'cookies/Default');
    mkdirSync(folder, {recursive: true});
    writeFileSync(join(folder, 'Preferences'), JSON.stringify({profile: {default_content_setting_values: {cookies: 2}}}));
    const context = await launch('cookies');
    const page = await context.newPage();
    page.setDefaultTimeout(patience);
    await page.goto(sites.ordinary + '/');
    await settled(page, 'cookies');
    assert.equal(await text(page, 'go'), 'Try again');
    await context.close();
  },
  async 'is not turned by hostile values'(browser) {
    const page = await opened(browser);
    const url = sites.hostile + `/%3Cscript%3E/'"><script>document.title='taken'</script>?a='"><img src=x onerror=alert(1)>&b=</script><!--\\`;
    await page.goto(url);
    await settled(page, 'working');
    for (const mark of ['taken', 'x onerror']) assert.equal(await page.locator(`img[src="${mark}"], [data-${'taken'}]`).count(), 0);
    assert.equal(await page.locator('script').count(), 2);
    assert.equal(await page.locator('img, iframe, b, [onclick], [onerror]').count(), 0);
    assert.notEqual(await page.title(), 'taken');
    assert.doesNotMatch(await page.locator('body').innerText(), /[\u202a-\u202e\u2066-\u2069]/);
    assert.equal(await page.locator('a[href^="javascript:" i]').count(), 0);
    assert.equal(new URL(await page.evaluate(() => document.getElementById('th-form').action)).origin, new URL(sites.hostile).origin);
    await accessible(page, 'hostile');
    await picture(page, 'hostile');
    await page.finish();
  },
  async 'does not leave the site, whatever the path'(browser) {
    const page = await opened(browser);
    await page.goto(sites.ordinary + '//another.test/%2e%2e#part');
    await arrived(page);
    assert.equal(new URL(page.url()).origin, new URL(sites.ordinary).origin);
    await page.finish();
  },
};

const passed = await runCases(cases, () => chromium.launch({executablePath: program, headless: true, args, chromiumSandbox: false}), only);
rmSync(profile, {recursive: true, force: true, maxRetries: 3});
process.exit(passed ? 0 : 1);
