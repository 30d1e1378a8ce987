// Drives a real Chromium over the console of a server with very many decisions: `asked.open`, in which `asked.all` decisions are, of
// which `asked.rare.count` are of one address and for one path. Prints a line for each case, and ends with 1 if one has failed.
import assert from 'node:assert/strict';
import {runCases} from '../browser_cases.mjs';
import {PHONE, WIDE, accessible, asked, fits, launch, opened, picture} from './pages.mjs';

const {open, all, rare, only} = asked;
const key = `pipeline=web&kind=ip&value=${rare.address}`;
const pages = {
  now: '/console/',
  decisions: '/console/decisions',
  'next to last day': '/console/decisions?pipeline=web&to=2026-05-16',
  'rare key': `/console/decisions?${key}`,
  'rare text': `/console/decisions?pipeline=web&q=${rare.text}`,
  'rare action': '/console/decisions?action=reject',
  'never true': '/console/decisions?pipeline=web&where=http.status+%3D%3D+599',
  common: '/console/decisions/common?pipeline=web&rule=PROBE',
  'look-up': `/console/keys?q=${rare.address}`,
  'hot keys': '/console/keys?pipeline=web&kind=ip',
  key: `/console/key?${key}`,
  bans: '/console/bans',
  rules: '/console/rules',
  rule: '/console/rules?pipeline=web&rule=PROBE',
  impact: '/console/rules/impact?pipeline=web&rule=PROBE&span=7d',
  learners: '/console/learners?pipeline=web',
  reviews: '/console/reviews?by=ann',
  settings: '/console/settings',
};
const found = page => page.locator('table.decisions tbody tr');
// A search reads for a bounded time, and less in it on a machine that does much else: what it has read stays in memory, so that it
// comes further when it is asked for again.
async function whole(page, url) {
  for (let look = 0; look < 60; look++) {
    await page.goto(open + url);
    // Those that are sought fit on a page.
    if (!await page.getByRole('link', {name: /^Older/}).count()) return;
  }
  assert.fail(`${url}: the search stays cut`);
}

const cases = {};
for (const [name, url] of Object.entries(pages)) {
  cases[`${name}: is whole`] = async browser => {
    const page = await opened(browser, {reducedMotion: 'reduce'});
    const answer = await page.goto(open + url);
    assert.equal(answer.status(), 200);
    for (const viewport of [PHONE, WIDE]) {
      await page.setViewportSize(viewport);
      await picture(page, `million-${name}-${viewport.width}`);
      await fits(page, `${name} ${viewport.width}`);
    }
    await accessible(page, name);
    await page.finish();
  };
}
Object.assign(cases, {
  async 'all are counted'(browser) {
    const page = await opened(browser);
    await page.goto(open + '/console/');
    const counts = await page.locator('#now table').getByRole('row').locator('td:last-child').allInnerTexts();
    assert.equal(counts.reduce((sum, text) => sum + Number(text.replace(/\D/g, '')), 0), all);
    await page.finish();
  },
  async 'what is rare is found in all of them'(browser) {
    const page = await opened(browser);
    for (const url of [pages['rare key'], pages['rare text']]) {
      await whole(page, url);
      assert.equal(await found(page).count(), rare.count, url);
    }
    await whole(page, `${pages['rare key']}&to=2026-05-16`);
    const before = await found(page).count();
    assert(before > 0 && before < rare.count, `${before}`);
    await page.finish();
  },
  async 'older ones follow newer ones, each once'(browser) {
    const page = await opened(browser), ids = [];
    await page.goto(`${open}/console/decisions?rule=PROBE`);
    // A page that was cut has fewer.
    for (let turn = 0; turn < 60 && ids.length < 200; turn++) {
      ids.push(...await found(page).locator('td:first-child a').evaluateAll(links => links.map(link => link.getAttribute('href'))));
      await page.getByRole('link', {name: /^Older/}).click();
    }
    assert(ids.length >= 200 && new Set(ids).size === ids.length, `${ids.length} decisions, ${new Set(ids).size} of them different`);
    await page.finish();
  },
  async 'from an address to why it was let in'(browser) {
    const page = await opened(browser);
    await page.goto(open + '/console/');
    await page.fill('#find', rare.address);
    await page.keyboard.press('Enter');
    await found(page).locator('a').first().click();
    await page.waitForURL(/\/console\/decisions\/[^/]+$/);
    await page.getByText(rare.text).first().waitFor();
    await accessible(page, 'decision');
    await picture(page, 'million-decision');
    await page.finish();
  },
  async 'a rule is tried on all of them, a sample first, and cancelled'(browser) {
    const page = await opened(browser);
    await page.goto(`${open}/console/rules/edit?pipeline=web&when=${encodeURIComponent(`http.path == '${rare.path}'`)}`);
    await page.locator('select[name=span]').selectOption('7d');
    await page.getByRole('button', {name: 'Try it'}).click();
    // The sample's result is there while the rest is gone through.
    await page.locator('#trial dl.figures').waitFor({timeout: 120_000});
    await accessible(page, 'tried');
    const cancel = page.getByRole('button', {name: 'Cancel'});
    if (await cancel.count()) {
      await cancel.click();
      await page.locator('#trial[data-state=cancelled], #trial[data-state=done]').waitFor();
    }
    await page.finish();
  },
});

process.exit(await runCases(cases, launch, only) ? 0 : 1);
