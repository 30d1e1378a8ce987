// Drives a real Chromium over the console.
//
//   node browser.mjs '{"chromium": "/usr/bin/chromium", "packages": "…", "pictures": null, "open": "http://127.0.0.1:1",
//                      "locked": "http://127.0.0.1:2", "token": "…", "pages": {"overview": "/console/", …}, "decision": "…"}'
//
// `open` asks for no token and has data in it, `locked` asks for the token, and at `waved` a wave of requests began ten minutes ago. Each page is looked at on a phone and on a wide screen,
// light and dark, with and without scripts: nothing may be reported on the console, break the policy, come from another host, be
// wider than the window, or be an obstacle by axe. Prints a line for each case, and ends with 1 if one has failed.
import assert from 'node:assert/strict';
import {isDeepStrictEqual} from 'node:util';
import {becomes, runCases, until} from '../browser_cases.mjs';
import {PHONE, WIDE, accessible, asked, fits, launch, opened, picture} from './pages.mjs';

const {open, locked, waved, peopled, token, pages, decision, blocked, only} = asked;

// A task at a site: each navigation, click and form that is sent is a step.
function task(page, site = open) {
  let steps = 0;
  return {
    async goTo(url) { steps++; await page.goto(site + url); },
    async click(what) { steps++; await what.click(); },
    async find(text) { steps++; await page.fill('#find', text); await page.keyboard.press('Enter'); },
    endsWithin(bound, what) {
      console.log(`steps: ${what}: ${steps} of ${bound}`);
      assert(steps <= bound, `${what} takes ${steps} steps`);
    },
  };
}
const waveLine = number => `203.0.113.${number} - - [17/May/2026:12:00:00 +0000] "GET /gift-card-generator?n=${number} HTTP/1.1" 200 10 "-" "Mozilla/5.0"`;
const assertChanges = async (look, before, what) => assert.notDeepEqual(await until(look, seen => !isDeepStrictEqual(seen, before)), before, what);
// Without scripts a person loads the page again.
const lookAgain = (page, wanted) => until(async () => await wanted.count() || (await page.goto(page.url().split('#')[0]), 0), found => found);
const focus = (page, name) => () => page.evaluate(name => document.activeElement[name], name);
const dialogs = page => () => page.locator('dialog[open]').count();
const because = page => page.getByRole('heading', {level: 1}).filter({hasText: 'because'}).waitFor();

// The editor of rules: what is typed into it is in the form's own text, too.
const editor = page => ({
  content: page.locator('.cm-content'),
  text: () => page.locator('#text').inputValue(),
  async fill(text) {
    await this.content.focus();
    await page.keyboard.press('Control+a');
    // Pasted, as people do with several lines.
    await this.content.evaluate((content, text) => {
      const clipboardData = new DataTransfer();
      clipboardData.setData('text/plain', text);
      content.dispatchEvent(new ClipboardEvent('paste', {clipboardData, bubbles: true, cancelable: true}));
    }, text);
    assert.equal(await this.text(), text);
  },
});

const cases = {};
for (const [name, url] of Object.entries(pages)) {
  cases[`${name}: is for everybody, on a phone and wide, light and dark`] = async browser => {
    // Nothing fades while it is looked at.
    const page = await opened(browser, {reducedMotion: 'reduce'});
    const answer = await page.goto(open + url);
    assert.equal(answer.status(), 200);
    for (const colorScheme of ['light', 'dark']) for (const viewport of [PHONE, WIDE]) {
      await page.emulateMedia({colorScheme, reducedMotion: 'reduce'});
      await page.setViewportSize(viewport);
      const what = `${name} ${colorScheme} ${viewport.width}`;
      await picture(page, `${name}-${colorScheme}-${viewport.width}`);
      await fits(page, what);
      await accessible(page, what);
    }
    await page.finish();
  };
  cases[`${name}: reads the same without scripts`] = async browser => {
    const [plain, full] = [await opened(browser, {javaScriptEnabled: false}), await opened(browser)];
    for (const page of [plain, full]) await page.goto(open + url);
    const heading = page => page.locator('h1').innerText();
    assert.equal(await heading(plain), await heading(full));
    await plain.finish();
    await full.finish();
  };
}
Object.assign(cases, {
  async 'keys lead everywhere'(browser) {
    const page = await opened(browser);
    await page.goto(open + '/console/');
    await page.keyboard.press('/');
    await becomes(focus(page, 'id'), 'find');
    await page.keyboard.type(decision);
    await page.keyboard.press('Enter');
    await page.waitForURL(`**/console/decisions/${decision}`);
    // The second key counts for a moment only.
    const gone = async () => {
      await page.keyboard.press('g');
      await page.keyboard.press('r');
      return page.waitForURL('**/console/rules', {timeout: 20_000}).then(() => true, () => false);
    };
    assert(await until(gone, gone => gone), page.url());
    await page.keyboard.press('j');
    await page.keyboard.press('j');
    await page.keyboard.press('k');
    const first = await page.locator('table.rows tbody tr a').first().getAttribute('href');
    await becomes(() => page.evaluate(() => document.activeElement.getAttribute('href')), first);
    await page.keyboard.press('Enter');
    await page.waitForURL(open + first);
    await page.keyboard.press('?');
    await page.locator('dialog[open]').waitFor();
    await accessible(page, 'keys');
    await picture(page, 'keyboard');
    await page.keyboard.press('Escape');
    await becomes(dialogs(page), 0);
    await page.finish();
  },
  async 'skips to the content'(browser) {
    const page = await opened(browser);
    await page.goto(open + '/console/rules');
    await page.keyboard.press('Tab');
    await becomes(focus(page, 'className'), 'skip');
    await page.keyboard.press('Enter');
    await becomes(focus(page, 'id'), 'content');
    await page.finish();
  },
  async 'task: why was this mail rejected'(browser) {
    const page = await opened(browser), {goTo, find, endsWithin} = task(page);
    await goTo('/console/');
    await find(decision);
    await because(page);
    endsWithin(3, 'find why a mail was rejected');
    await page.finish();
  },
  async 'task: why am I blocked, from an address'(browser) {
    const page = await opened(browser), {goTo, find, click, endsWithin} = task(page);
    await goTo('/console/');
    await find(blocked);
    // The ban, its reason and its end are said at once; what the address did is one step further.
    await page.getByText('scanner').first().waitFor();
    await accessible(page, 'looked up');
    await click(page.locator('table.decisions tbody a').first());
    await because(page);
    endsWithin(3, 'answer why an address is blocked');
    await page.finish();
  },
  async 'task: stops a wave, and undoes the rule'(browser) {
    const page = await opened(browser);
    const stop = task(page, waved);
    await stop.goTo('/console/');
    await stop.click(page.getByRole('main').getByRole('link', {name: 'web', exact: true}));
    await accessible(page, 'in common');
    await picture(page, 'common');
    for (const viewport of [PHONE, WIDE]) {
      await page.setViewportSize(viewport);
      await fits(page, `in common ${viewport.width}`);
    }
    const fact = page.getByRole('row').filter({hasText: 'gift-card-generator'}).first();
    await stop.click(fact.getByRole('link', {name: /^Write a rule/}));
    assert.match(await editor(page).text(), /when = ".*gift-card-generator/);
    await stop.click(page.getByRole('button', {name: 'Try it'}));
    await page.locator('#trial[data-state=done]').waitFor();
    await stop.click(page.getByRole('button', {name: 'Enforce'}));
    await page.getByRole('status').waitFor();
    stop.endsWithin(6, 'stop a wave');
    const hit = await fetch(`${waved}/v1/decide?pipeline=web`, {method: 'POST', headers: {'Content-Type': 'text/plain'}, body: waveLine(7)});
    assert.equal((await hit.json()).reasons[0].name, 'NEW_RULE');

    const undo = task(page, waved);
    await undo.goTo('/console/rules?pipeline=web');
    await undo.click(page.getByRole('button', {name: /^Go back/}).first());
    await accessible(page, 'taken out');
    await undo.click(page.getByRole('link', {name: 'What NEW_RULE did'}));
    await undo.click(page.getByRole('button', {name: 'Take it back'}));
    await page.getByRole('status').first().waitFor();
    undo.endsWithin(4, 'undo a wrong rule');
    const after = await fetch(`${waved}/v1/decide?pipeline=web`, {method: 'POST', headers: {'Content-Type': 'text/plain'}, body: waveLine(8)});
    assert(!(await after.json()).reasons.some(reason => reason.name === 'NEW_RULE'));
    await page.finish();
  },
  async 'bans and lifts, with and without scripts'(browser) {
    for (const javaScriptEnabled of [true, false]) {
      const page = await opened(browser, {javaScriptEnabled});
      await page.goto(open + pages.key);
      await page.getByRole('button', {name: 'Ban', exact: true}).click();
      await page.getByRole('status').filter({hasText: 'The ban holds'}).waitFor();
      // Without scripts axe waits for a timer that never comes.
      if (javaScriptEnabled) await accessible(page, 'banned');
      await page.getByRole('button', {name: /^Lift/}).first().click();
      await page.getByRole('status').filter({hasText: 'Lifted: 1'}).waitFor();
      await page.finish();
    }
  },
  async 'gives feedback and takes it back'(browser) {
    const page = await opened(browser);
    await page.goto(open + pages.mail);
    await page.getByRole('button', {name: 'spam', exact: true}).click();
    await page.getByRole('status').filter({hasText: 'Your feedback was taken in'}).waitFor();
    await page.getByRole('button', {name: 'Take back'}).click();
    await page.getByRole('status').filter({hasText: 'taken back'}).waitFor();
    await page.finish();
  },
  async 'judges several at once, and takes it back'(browser) {
    const page = await opened(browser);
    await page.goto(open + '/console/decisions?pipeline=mail');
    for (const box of (await page.getByRole('checkbox').all()).slice(0, 2)) await box.check();
    await page.getByRole('button', {name: 'spam', exact: true}).click();
    await page.getByRole('status').filter({hasText: 'spam: taken in for 2 decisions.'}).waitFor();
    await accessible(page, 'judged');
    await page.getByRole('button', {name: 'Undo'}).click();
    await page.getByRole('status').filter({hasText: 'none: taken in for 2 decisions.'}).waitFor();
    await page.finish();
  },
  async 'completes what is searched for, and saves the search'(browser) {
    const page = await opened(browser);
    await page.goto(open + '/console/decisions?pipeline=web&where=http.method+%3D%3D+%27GET%27');
    const where = page.getByLabel('Condition, as in a rule');
    await where.fill('');
    await where.pressSequentially('http.statu');
    await page.getByRole('option', {name: /^http\.status/}).first().waitFor();
    await accessible(page, 'names of a search');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await becomes(() => where.inputValue(), 'http.status');
    await page.keyboard.type(' == 404');
    await page.keyboard.press('Enter');
    await page.waitForURL(/http\.status/);
    await page.getByText('Save this search').click();
    await page.getByLabel('Name', {exact: true}).fill('Not found');
    await accessible(page, 'saving a search');
    await picture(page, 'saving');
    await page.getByRole('button', {name: 'Save', exact: true}).click();
    await page.getByRole('status').filter({hasText: 'The search is saved'}).waitFor();
    await page.getByRole('link', {name: 'Not found'}).waitFor();
    await page.getByText('Save this search').click();
    await page.getByRole('button', {name: 'Remove the search Not found'}).click();
    await page.getByRole('status').filter({hasText: 'The search is removed'}).waitFor();
    await page.finish();
  },
  async 'looks at a list of bans, and imports it'(browser) {
    const page = await opened(browser);
    await page.goto(open + '/console/bans/import');
    await page.getByLabel('Text', {exact: true}).fill('203.0.113.77\nnobody\n127.0.0.1\n');
    await page.getByRole('button', {name: 'Preview'}).click();
    await page.getByText('Nothing has changed').waitFor();
    await accessible(page, 'a list that is looked at');
    await picture(page, 'ban-preview');
    await page.getByRole('button', {name: 'Ban them'}).click();
    await page.getByText('The list is imported').waitFor();
    await page.finish();
  },
  async 'edits rules: shows mistakes at their place, completes names, tries while one types'(browser) {
    const page = await opened(browser);
    await page.goto(open + '/console/rules/edit?pipeline=web');
    const {content} = editor(page), edited = editor(page);
    await edited.fill('[[rule]]\nname = "EDITED"\nscore = 9.0\nwhen = "http.statu == 404"\n');
    // Nobody asked for it: it is checked while one types.
    await page.locator('.cm-lintRange-error').waitFor();
    await becomes(() => page.locator('.cm-lintRange-error').allInnerTexts(), ['http.statu']);
    await page.getByText('One mistake').waitFor();
    await accessible(page, 'a mistake');
    await picture(page, 'mistake');
    await page.locator('.cm-lintRange-error').hover();
    await page.locator('.cm-tooltip-lint').getByText('http.status').waitFor();
    await page.getByRole('link', {name: /^Line 4/}).click();
    await becomes(() => content.evaluate(element => element.getRootNode().activeElement === element), true);
    await page.keyboard.type('x');
    assert.match(await edited.text(), /when = "x$/m, 'what was wrong is chosen');
    await page.getByRole('button', {name: 'Check'}).click();
    await page.getByRole('heading', {name: /mistake/}).waitFor();
    await page.locator('.cm-lintRange-error').first().waitFor();
    // Completed by keys alone.
    await edited.fill('[[rule]]\nname = "EDITED"\nscore = 9.0\nwhen = "');
    await page.keyboard.type('http.statu');
    await page.getByRole('option', {name: /^http\.status/}).first().waitFor();
    await accessible(page, 'names');
    await picture(page, 'names');
    // The list takes no keys for a moment, so that who types on does not choose by chance.
    await page.waitForTimeout(150);
    await page.keyboard.press('Enter');
    assert.match(await edited.text(), /when = "http\.status$/);
    await page.getByLabel('Try while I type').check();
    await content.focus();
    await page.keyboard.press('Control+End');
    await page.keyboard.type(' == 404"');
    await page.locator('#trial[data-state=done]').waitFor();
    assert(page.url().endsWith('/console/rules/edit') || page.url().includes('pipeline=web'), page.url());
    await page.locator('#trial').getByText('EDITED').first().waitFor();
    await becomes(() => page.locator('.cm-lintRange-error').count(), 0);
    await accessible(page, 'tried');
    await picture(page, 'tried');
    // Letters are letters there, and Tab leads out.
    await content.focus();
    await page.keyboard.type('?j/');
    assert.match(await edited.text(), /\?j\/$/);
    await becomes(dialogs(page), 0);
    await page.keyboard.press('Control+f');
    await page.getByPlaceholder('Find').waitFor();
    await accessible(page, 'find');
    await page.keyboard.press('Escape');
    await page.keyboard.press('Tab');
    await becomes(focus(page, 'value'), 'check');
    await page.finish();
  },
  async 'tries rules without scripts'(browser) {
    const page = await opened(browser, {javaScriptEnabled: false});
    await page.goto(open + '/console/rules/edit?pipeline=web');
    await page.getByLabel('Rules', {exact: true}).fill('[[rule]]\nname = "PLAIN"\nscore = 9.0\nwhen = "http.status == 404"\n');
    await page.getByRole('button', {name: 'Try it'}).click();
    const tried = page.locator('#trial').getByText('PLAIN');
    await lookAgain(page, tried);
    await tried.first().waitFor();
    await page.getByRole('button', {name: 'Put in shadow'}).click();
    await page.getByRole('status').filter({hasText: 'judged in shadow'}).waitFor();
    await page.finish();
  },
  async 'checks a pasted text and teaches a message from a file, with and without scripts'(browser) {
    for (const javaScriptEnabled of [true, false]) {
      const page = await opened(browser, {javaScriptEnabled});
      await page.goto(open + pages.learners);
      await page.getByLabel('Event or text').fill('Buy <b>pills</b> now');
      await page.getByRole('button', {name: 'Check', exact: true}).click();
      await page.getByText('checked, without a trace').waitFor();
      if (javaScriptEnabled) await accessible(page, 'checked');
      await page.goBack();
      const buffer = Buffer.from(`Subject: minutes ${javaScriptEnabled}\r\n\r\nThe minutes of Monday\r\n`);
      await page.getByLabel('Or a file').setInputFiles({name: 'a.eml', mimeType: 'message/rfc822', buffer});
      await page.getByRole('button', {name: 'Teach as ham', exact: true}).click();
      await page.getByRole('status').filter({hasText: 'Taught as ham'}).waitFor();
      await page.finish();
    }
  },
  async 'trains the linear models again, with and without scripts'(browser) {
    for (const javaScriptEnabled of [true, false]) {
      const page = await opened(browser, {javaScriptEnabled});
      await page.goto(open + pages.learners);
      await page.getByRole('button', {name: 'Train and preview'}).click();
      const ready = page.getByText('They are ready');
      if (!javaScriptEnabled) await lookAgain(page, ready);
      await ready.waitFor();
      await page.getByRole('row', {name: /^Bad, taken for good/}).waitFor();
      if (javaScriptEnabled) await accessible(page, 'trained');
      await picture(page, 'trained');
      // Those in use were also taught without a decision, by a form.
      const replace = page.getByLabel(/^Those in use have learned more/);
      if (await replace.count()) await replace.check();
      await page.getByRole('button', {name: 'Use them'}).click();
      await page.getByRole('status').filter({hasText: 'The new linear models are in use.'}).waitFor();
      await page.getByRole('button', {name: 'Train and preview'}).click();
      await page.getByRole('button', {name: 'Let them go'}).click();
      await page.getByRole('status').filter({hasText: 'They were let go.'}).waitFor();
      await page.finish();
    }
  },
  async 'notes on a key, allows it, and takes it off the list'(browser) {
    const page = await opened(browser, {viewport: PHONE});
    const said = async text => { await page.getByRole('status').filter({hasText: text}).waitFor(); await accessible(page, text); };
    await page.goto(open + '/console/key?pipeline=web&kind=ip&value=198.51.100.3');
    await page.getByLabel('Note', {exact: true}).fill('Asked <b>on the phone</b>');
    await page.getByRole('button', {name: 'Add the note'}).click();
    await said('The note is kept.');
    await page.getByText('Asked <b>on the phone</b>').waitFor();
    await page.getByLabel('Reason', {exact: true}).fill('The office');
    await page.getByRole('button', {name: 'Allow', exact: true}).click();
    await said('Nothing bans it any more.');
    await picture(page, 'allowed');
    await page.getByRole('button', {name: 'Remove 198.51.100.3 from the allow list'}).click();
    await said('It is off the allow list');
    await page.getByRole('button', {name: /^Remove the note/}).click();
    await said('The note is removed.');
    await page.finish();
  },
  async 'begins a rule with what an event is'(browser) {
    const page = await opened(browser);
    await page.goto(open + pages.decision);
    await page.locator('select[name=when]').selectOption('http.status == 404');
    await page.getByRole('button', {name: 'Write a rule'}).click();
    await page.waitForURL('**/console/rules/edit?*');
    assert.match(await editor(page).text(), /when = "http\.status == 404"/);
    await page.finish();
  },
  async 'works through reviews by keys alone'(browser) {
    const page = await opened(browser), keys = async (...all) => { for (const key of all) await page.keyboard.press(key); };
    // Keys are heard once the page is there as a whole.
    const status = async text => { await page.getByRole('status').filter({hasText: text}).waitFor(); await page.waitForLoadState(); };
    const ids = () => page.locator('ul.queue > li a.row-link').allInnerTexts();
    const focused = () => page.evaluate(() => document.activeElement.closest('ul.queue > li')?.querySelector('a.row-link').innerText);
    await page.goto(`${open}${pages.reviews}&pipeline=comments&rule=LOOK`);
    const before = await ids();
    assert(before.length >= 8, `${before}`);
    // Of the first three nobody has said anything; cid would publish the others.
    await keys('j', 'j', 'j', 'j', 'j', 'c');
    await status('It is yours.');
    await becomes(focused, before[4], 'the focus stays');
    await keys('m');
    await page.keyboard.type('pxcr <b>said</b>');
    await accessible(page, 'commented');
    await keys('Tab', 'Enter');
    await status('Your comment was added.');
    await page.getByText('pxcr <b>said</b>').waitFor();
    await keys('e', 'Escape');
    await becomes(() => page.evaluate(() => [document.activeElement.tagName, document.querySelectorAll('details[open]').length]), ['SUMMARY', 0]);
    await keys('r');
    await status('Others may have it again.');
    await keys('p');
    await status('Your vote decided it.');
    await becomes(ids, before.filter(id => id !== before[4]));
    await becomes(focused, before[5], 'the next is in its place');
    await keys('Enter');
    await page.waitForURL(`**/console/reviews/${before[5]}?*`);
    await keys('x');
    await status('Your vote differs from another');
    await page.waitForURL(`**/console/reviews/${before[6]}?*`);
    await accessible(page, 'the next');
    await keys('n');
    await page.waitForURL(`**/console/reviews/${before[7]}?*`);
    await keys('e');
    await page.keyboard.type('Is this satire?');
    await keys('Tab', 'Enter');
    await status('A lead decides.');
    await keys('?');
    await page.locator('dialog[open]').getByText('Decide alike').waitFor();
    await keys('Escape');
    await page.goto(open + pages.alike);
    await keys('x');
    await status('your vote was taken on');
    await accessible(page, 'decided alike');
    await picture(page, 'alike-decided');
    await page.finish();
  },
  async 'reviews without scripts'(browser) {
    const page = await opened(browser, {javaScriptEnabled: false});
    await page.goto(`${open}/console/reviews?by=max&pipeline=comments&rule=LOOK&sort=oldest`);
    await page.getByRole('button', {name: 'Claim'}).first().click();
    await page.getByRole('status').filter({hasText: 'It is yours.'}).waitFor();
    await page.locator('summary', {hasText: 'Comment'}).first().click();
    await page.locator('details[open] textarea').fill('without scripts');
    await page.locator('details[open] button').click();
    await page.getByRole('status').filter({hasText: 'Your comment was added.'}).waitFor();
    await page.getByRole('button', {name: 'Release'}).first().click();
    await page.getByRole('status').filter({hasText: 'Others may have it again.'}).waitFor();
    await page.finish();
  },
  async 'follows decisions as they are made, and pauses'(browser) {
    const page = await opened(browser);
    await page.goto(open + '/console/decisions?pipeline=mail');
    const before = await page.locator('table.decisions tbody tr').count();
    const button = page.getByRole('button', {name: 'Follow'});
    await button.focus();
    const watching = page.waitForResponse(response => response.url().includes('/console/decisions/live'));
    await page.keyboard.press(' ');
    await watching;
    const mail = subject => fetch(`${open}/v1/decide?pipeline=mail`, {method: 'POST', headers: {'Content-Type': 'message/rfc822'}, body: `From: a@b.example\r\nSubject: ${subject}\r\n\r\n${subject}\r\n`});
    await mail('<img src=x onerror=alert(1)> new');
    await page.locator('table.decisions tr.fresh').filter({hasText: '<img src=x onerror=alert(1)> new'}).waitFor();
    await becomes(() => page.locator('table.decisions tbody tr').count(), before + 1);
    await accessible(page, 'followed');
    await page.getByRole('button', {name: 'Pause'}).click();
    await page.getByRole('button', {name: 'Follow'}).waitFor();
    await page.finish();
  },
  async 'draws charts with values, in the colours of the page, and opens what is in a column'(browser) {
    const page = await opened(browser);
    await page.goto(open + pages.key);
    await becomes(() => page.locator('svg[data-plot]').evaluateAll(all => [...new Set(all.map(one => getComputedStyle(one).display))]), ['none']);
    const canvases = page.locator('.drawn canvas'), drawn = await canvases.count();
    assert(drawn >= 1, 'no chart is drawn');
    const drawing = () => canvases.first().evaluate(canvas => canvas.toDataURL());
    const light = await drawing();
    await page.emulateMedia({colorScheme: 'dark'});
    await assertChanges(drawing, light, 'the colours follow the page');
    await becomes(() => canvases.count(), drawn);
    await page.emulateMedia({colorScheme: 'light'});
    await becomes(drawing, light, 'and go back');
    const over = page.locator('.drawn .u-over').first();
    const {width, height} = await over.boundingBox();
    // The newest columns are at the right.
    let shown;
    for (let part = 1; part < 60 && !(shown = /\d/.test(await page.locator('.drawn .u-value').nth(1).innerText())); part++) {
      await over.hover({position: {x: width * (1 - part / 60), y: height / 2}});
    }
    assert(shown, 'a value is shown below the pointer');
    await over.click({position: {x: width * 0.5, y: height / 2}});
    await page.waitForURL(/\/console\/decisions\?.*from=.*&to=/);
    await page.getByLabel('From (UTC)').waitFor();
    await page.finish();
  },
  async 'refreshes what is now, keeps the focus, and pauses'(browser) {
    const page = await opened(browser);
    await page.clock.install();
    await page.goto(open + '/console/');
    const all = page.getByRole('row').filter({hasText: 'accept'}).getByRole('cell').last();
    const shown = () => all.innerText(), before = await shown();
    await page.locator('#now a').first().focus();
    const focused = () => page.evaluate(() => document.activeElement.getAttribute('href'));
    const link = await focused();
    const line = '198.51.100.3 - - [17/May/2026:12:00:00 +0000] "GET / HTTP/1.1" 200 10 "-" "Mozilla/5.0"';
    const decide = () => fetch(`${open}/v1/decide?pipeline=web`, {method: 'POST', headers: {'Content-Type': 'text/plain'}, body: line});
    await decide();
    await page.clock.runFor(5500);
    await assertChanges(shown, before);
    await becomes(focused, link, 'the focus stays');
    const [drawn, wanted] = await page.evaluate(() => [
      document.querySelectorAll('.drawn canvas').length,
      [...document.querySelectorAll('svg[data-plot]')].filter(picture => JSON.parse(picture.dataset.plot).series.length).length,
    ]);
    assert.equal(drawn, wanted, 'a chart with something in it is drawn once');
    await accessible(page, 'refreshed');
    await page.getByRole('button', {name: 'Pause'}).click();
    const paused = await shown();
    await decide();
    await page.clock.runFor(20_000);
    assert.equal(await shown(), paused);
    await page.getByRole('button', {name: 'Go on'}).click();
    await page.clock.runFor(5500);
    await assertChanges(shown, paused);
    await page.finish();
  },
  async 'exports what is seen'(browser) {
    const page = await opened(browser);
    await page.goto(open + '/console/decisions?pipeline=mail');
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', {name: 'CSV'}).click()]);
    assert.equal(download.suggestedFilename(), 'decisions.csv');
    await page.finish();
  },
  async 'shows each role what it may'(browser) {
    // Pages and buttons from the least role that has them on.
    const roles = ['viewer', 'reviewer', 'editor', 'administrator'];
    const key = '/console/key?pipeline=web&kind=agent&value=curl';
    const all = {
      '/console/': 'viewer', '/console/rules': 'viewer', '/console/learners': 'viewer', [key]: 'viewer', '/console/bans': 'viewer',
      '/console/decisions': 'reviewer', '/console/rules/edit': 'editor', '/console/settings/access': 'administrator',
    };
    const buttons = {[key]: {'Add the note': 'reviewer', 'Allow': 'editor', 'Reset': 'administrator'}};
    const may = (role, least) => roles.indexOf(role) >= roles.indexOf(least);
    for (const role of roles) {
      const page = await opened(browser);
      await page.goto(peopled + '/console/');
      await page.getByLabel('Name').fill(role);
      await page.getByLabel('Password').fill(token);
      await page.keyboard.press('Enter');
      await page.waitForURL(peopled + '/console/');
      for (const [url, least] of Object.entries(all)) {
        const status = await page.evaluate(async url => (await fetch(url)).status, url);
        assert.equal(status, may(role, least) ? 200 : 403, `${role} ${url}`);
      }
      for (const [url, its] of Object.entries(buttons)) {
        await page.goto(peopled + url);
        for (const [name, least] of Object.entries(its)) {
          assert.equal(await page.getByRole('button', {name, exact: true}).count() > 0, may(role, least), `${role}: ${name}`);
        }
        await accessible(page, `${role} ${url}`);
      }
      await page.getByRole('button', {name: 'Log out'}).click();
      await page.waitForURL('**/console/login');
      await page.context().close();
    }
  },
  async 'logs in and out'(browser) {
    for (const viewport of [PHONE, WIDE]) {
      const page = await opened(browser, {viewport});
      await page.goto(locked + '/console/rules');
      await page.waitForURL('**/console/login?next=*');
      await accessible(page, 'login');
      await picture(page, `login-${viewport.width}`);
      await page.getByLabel('Token').fill(token);
      await page.keyboard.press('Enter');
      await page.waitForURL('**/console/rules');
      const [cookie] = await page.context().cookies();
      assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, 'Strict']);
      await fits(page, 'logged in');
      await page.getByRole('button', {name: 'Log out'}).click();
      await page.waitForURL('**/console/login');
      await page.goto(locked + '/console/rules');
      await page.waitForURL('**/console/login?next=*');
      await page.finish();
    }
  },
  async 'keeps its shape at twice and four times the size'(browser) {
    // 1,280 pixels at 400 % are 320.
    const page = await opened(browser, {viewport: {width: 320, height: 640}});
    for (const [name, url] of Object.entries(pages)) {
      await page.goto(open + url);
      await fits(page, `${name} 320`);
    }
    await page.finish();
  },
});

process.exit(await runCases(cases, launch, only) ? 0 : 1);
