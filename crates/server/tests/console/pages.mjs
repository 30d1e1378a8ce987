// What tests of the console's pages in a Chromium share. The program's first argument tells, as JSON, the path of `chromium`, the
// folder of `packages` that npm has filled, and the folder for `pictures`, if they are wanted.
import assert from 'node:assert/strict';
import {mkdirSync, readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {join} from 'node:path';
import {until} from '../browser_cases.mjs';

export const asked = JSON.parse(process.argv[2]);
const {chromium: program, packages, pictures} = asked;
const require = createRequire(join(packages, 'node_modules/x.js'));
const {chromium} = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');

export const PHONE = {width: 390, height: 844}, WIDE = {width: 1600, height: 1000};
const args = ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

// A page that notes what no page may do.
export async function opened(browser, options = {}) {
  const context = await browser.newContext({viewport: WIDE, ...options});
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const faults = [], requests = [];
  page.on('console', message => { if (['error', 'warning'].includes(message.type())) faults.push(`console: ${message.text()}`); });
  page.on('pageerror', error => faults.push(`error: ${error}`));
  page.on('request', request => requests.push(request));
  await context.addInitScript(() => addEventListener('securitypolicyviolation', event => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`)));
  page.finish = async () => {
    const hosts = new Set(requests.map(request => new URL(request.url()).host));
    assert.deepEqual(faults, []);
    assert(hosts.size <= 1, `requests to ${[...hosts]}`);
    await context.close();
  };
  return page;
}
export async function accessible(page, what) {
  // What the driver evaluates is not the page's own, so its policy does not hold for it.
  await page.evaluate(axe);
  const {violations, passes} = await page.evaluate(() => axe.run(document));
  assert(passes.length > 10, `${what}: axe has looked at nothing`);
  assert.deepEqual(violations.map(({id, nodes}) => `${what}: ${id}: ${nodes.slice(0, 3).map(node => `${node.html} ${node.failureSummary}`)}`), []);
}
export async function fits(page, what) {
  const widths = () => page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  // Charts are drawn anew for another width a little later.
  const [has, is] = await until(widths, ([has, is]) => has <= is);
  assert(has <= is, `${what}: ${has} of ${is} pixels wide`);
}
export async function picture(page, name) {
  if (!pictures) return;
  mkdirSync(pictures, {recursive: true});
  await page.screenshot({path: join(pictures, `${name}.png`), fullPage: true});
}
export const launch = () => chromium.launch({executablePath: program, headless: true, args, chromiumSandbox: false});
